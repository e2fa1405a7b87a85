"""Leave the number of multiprocessors as HIP tells it.

Problem: on RDNA, HIP counts work-group processors, of two compute units each, so that the number
looks like half of the truth; FADE doubled it.
Applies to: RDNA GPUs.
Effect: none. The number is right in its own unit, and it is a hint: Inductor sizes reductions and
persistent kernels by it. An override for Inductor alone would have to reach its compile workers,
which ask for the properties in processes of their own, and Triton, which asks HIP itself; a patched
function is seen by some and not by others, and the sizes contradict each other. The worker trains
without torch.compile, so there is nothing to gain.
Evidence: ROCm/hip#3767 and #2687 (the unit is documented by AMD); torch/_inductor/runtime/hints.py
and torch/_dynamo/device_interface.py (bound at import, cached by worker);
pytorch/pytorch#141687, #141690 (who uses the number); facts print both counts.
Remove when: Inductor has a setting for it; then it is worth an A/B run.
"""

from worker.hardware.patches.decision import Decision, Scope, refuse, skip
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES = ("GPU_ENABLE_WGP_MODE", "GPU_ENABLE_WAVE32_MODE")


def decide(facts: PatchFacts) -> Decision:
    """Nothing is changed."""
    rdna = [gpu for gpu in facts.gpus if gpu.wgp_count]
    if not rdna and all(gpu.wave_size == 64 for gpu in facts.gpus):
        return skip("HIP counts compute units here, as everybody expects")
    if not rdna:
        return skip("no file tells how many units the GPU has")
    counts = ", ".join(
        f"{gpu.gfx}: {gpu.wgp_count} work-group processors are {gpu.cu_count} compute units"
        for gpu in rdna
    )
    return refuse(f"{counts}; both are right, and no setting reaches all who ask for it")
