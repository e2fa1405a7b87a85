"""Compute convolutions without MIOpen where it refuses every one.

Problem: with ROCm 10.0 on gfx1151 every convolution failed with miopenStatusUnknownError, because
MIOpen measured times of zero; torch's own kernels worked.
Applies to: GPUs whose self-test had convolutions or norms refused by MIOpen, and right results
without it.
Effect: torch.backends.cudnn.enabled is False; convolutions and norms are slower.
Evidence: ROCm/MIOpen#3964, ROCm/TheRock#4954 (both open; read 2026-11-23).
Remove when: MIOpen works on gfx1151 in every ROCm that is supported.
"""

from worker.hardware.patches.decision import Decision, Scope, apply, skip
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES: tuple[str, ...] = ()


def decide(facts: PatchFacts) -> Decision:
    """Turn MIOpen off if the self-test needed that."""
    refused = [verdict.reason for verdict in facts.verdicts if verdict.avoids_miopen]
    if refused:
        return apply(refused[-1], settings={"torch.backends.cudnn.enabled": "False"})
    return skip("no self-test had a convolution refused by MIOpen")
