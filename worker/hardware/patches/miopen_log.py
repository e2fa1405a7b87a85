"""Silence a meaningless MIOpen warning that fills the log.

Problem: MIOpen warns of too little workspace at every convolution that it looks up, thousands of
times in a training run, and hides the lines that matter.
Applies to: every AMD GPU.
Effect: MIOPEN_LOG_LEVEL=3: errors are still reported, warnings are not.
Evidence: ROCm/rocm-libraries#4071, ROCm/MIOpen#2981 (IsEnoughWorkspace).
Remove when: MIOpen no longer warns when nothing is wrong.
"""

from worker.hardware.patches.decision import Decision, Scope, apply
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES = ("MIOPEN_LOG_LEVEL", "MIOPEN_ENABLE_LOGGING")


def decide(_: PatchFacts) -> Decision:
    """Report only errors."""
    return apply(
        "MIOpen's workspace warnings fill the log; errors are still reported",
        environment={"MIOPEN_LOG_LEVEL": "3"},
    )
