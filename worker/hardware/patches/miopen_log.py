"""Silence a warning of MIOpen's that means nothing and fills the log.

Problem: MIOpen warns of too little workspace at every convolution that it looks up, thousands of
times in a training, and the lines that matter drown.
Applies to: every AMD GPU.
Effect: MIOPEN_LOG_LEVEL=3: errors are still told, warnings are not.
Evidence: ROCm/rocm-libraries#4071, ROCm/MIOpen#2981 (IsEnoughWorkspace).
Remove when: MIOpen no longer warns where nothing is wrong.
"""

from worker.hardware.patches.decision import Decision, Scope, apply
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES = ("MIOPEN_LOG_LEVEL", "MIOPEN_ENABLE_LOGGING")


def decide(_: PatchFacts) -> Decision:
    """Errors only."""
    return apply(
        "MIOpen's workspace warnings drown the log; errors are still told",
        environment={"MIOPEN_LOG_LEVEL": "3"},
    )
