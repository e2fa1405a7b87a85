"""Place the arguments of kernels in the GPU's memory.

Problem: each launch has the GPU fetch its arguments from the host's memory, some microseconds that
add up in models of many small kernels.
Applies to: Instinct accelerators (CDNA) with memory of their own.
Effect: HIP_FORCE_DEV_KERNARG=1.
Evidence: AMD's performance guides for MI200 and MI300 recommend it for training and inference.
Remove when: HIP does it by default on these.
"""

from worker.hardware.patches.decision import Decision, Scope, apply, skip
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES = ("HIP_FORCE_DEV_KERNARG",)


def decide(facts: PatchFacts) -> Decision:
    """On for Instinct accelerators."""
    if not facts.targets or not all(t.family.startswith("cdna") for t in facts.targets):
        return skip("gains are known of Instinct accelerators alone")
    if any(gpu.is_apu for gpu in facts.gpus):
        return skip("its memory is the host's already")
    return apply(
        f"{', '.join(facts.gfx_names)}: launches are some microseconds shorter",
        environment={"HIP_FORCE_DEV_KERNARG": "1"},
    )
