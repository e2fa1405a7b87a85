"""Leave the number of hardware queues as it is.

Problem: on RDNA3 and RDNA4 a process that has HIP open can keep the GPU at 100 % busy, and at 80
to 100 W, while it does nothing.
Applies to: every AMD GPU.
Effect: none; GPU_MAX_HW_QUEUES=1 helps llama.cpp, and was seen not to help a resident PyTorch. What
helps is that no process has HIP open between jobs: the agent never does, a waiting trainer opens
it when its job begins, and each job ends its process.
Evidence: ROCm/ROCm#2625, #5706 (with measurements of PyTorch on an R9700 in its comments).
Remove when: the firmware no longer does it.
"""

from worker.hardware.patches.decision import Decision, Scope, skip
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES = ("GPU_MAX_HW_QUEUES",)


def decide(_: PatchFacts) -> Decision:
    """Nothing is set."""
    return skip("fewer queues do not cure PyTorch; between jobs no process has the GPU open")
