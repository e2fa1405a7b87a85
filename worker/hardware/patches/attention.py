"""Do not let torch try fused attention where it does not exist or is wrong.

Problem: on targets without AOTriton kernels torch tries fused attention at each call, warns, and
falls back to plain matrix products; a program that requires a fused kernel fails.
Applies to: targets without such kernels in the table, and GPUs whose self-test found wrong
attention.
Effect: torch's flash and memory-efficient attention are disabled; plain matrix products remain.
Evidence: ROCm/TheRock#1925 (gfx101x and gfx103x have no kernels).
Remove when: AOTriton has kernels for all targets in the table.
"""

from worker.hardware.patches.aotriton import find_fault
from worker.hardware.patches.decision import Decision, Scope, apply, skip
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES: tuple[str, ...] = ()
PLAIN = {
    "torch.backends.cuda.enable_flash_sdp": "False",
    "torch.backends.cuda.enable_mem_efficient_sdp": "False",
    "torch.backends.cuda.enable_math_sdp": "True",
}


def decide(facts: PatchFacts) -> Decision:
    """Use plain matrix products if fused kernels are missing or wrong."""
    wrong = find_fault(facts)
    if wrong is not None:
        return apply(wrong, settings=PLAIN)
    lacking = [target.gfx for target in facts.targets if target.aotriton == "none"]
    if lacking:
        return apply(f"{', '.join(lacking)}: no fused attention kernels", settings=PLAIN)
    return skip("torch chooses among the available kernels")
