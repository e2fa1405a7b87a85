"""Place the arguments of kernels in the GPU's memory.

Problem: at each launch the GPU fetches the arguments from the host's memory, which takes some
microseconds; they add up in models with many small kernels.
Applies to: Instinct accelerators (CDNA) with their own memory.
Effect: HIP_FORCE_DEV_KERNARG=1.
Evidence: AMD's performance guides for MI200 and MI300 recommend it for training and inference.
Remove when: HIP does this by default on these accelerators.
"""

from worker.hardware.patches.decision import Decision, Scope, apply, skip
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES = ("HIP_FORCE_DEV_KERNARG",)


def decide(facts: PatchFacts) -> Decision:
    """Enable it on Instinct accelerators."""
    if not facts.targets or not all(t.family.startswith("cdna") for t in facts.targets):
        return skip("gains are known only for Instinct accelerators")
    if any(gpu.is_apu for gpu in facts.gpus):
        return skip("it shares the host's memory")
    return apply(
        f"{', '.join(facts.gfx_names)}: kernel launches take a few microseconds less",
        environment={"HIP_FORCE_DEV_KERNARG": "1"},
    )
