"""Let MIOpen work on images whose channels lie together in memory.

Problem: torch hands MIOpen channels-last tensors as they are only when it is told to; otherwise
each convolution copies them back and forth, and the layout costs instead of gaining.
Applies to: CDNA, where MIOpen's fast kernels want it; elsewhere only where an A/B run has won.
Effect: PYTORCH_MIOPEN_SUGGEST_NHWC=1, and its twin for batch norm; the trainer then lays images and
weights out this way in half precision.
Evidence: PyTorch's aten/src/ATen/native/ConvUtils.h (without the variable the layout is not
passed on); gains on consumer cards are not known and so measured.
Remove when: torch passes the layout on by itself.
"""

from worker.hardware.patches.decision import Decision, Scope, apply, skip
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES = ("PYTORCH_MIOPEN_SUGGEST_NHWC", "PYTORCH_MIOPEN_SUGGEST_NHWC_BATCHNORM")


def decide(facts: PatchFacts) -> Decision:
    """On where it is known, or was measured, to gain."""
    trial = facts.trials.get("channels_last")
    if trial is not None:
        text = trial.describe()
        return _on(text) if trial.has_won else skip(f"off: {text}")
    if facts.targets and all(target.family.startswith("cdna") for target in facts.targets):
        return _on(f"{', '.join(facts.gfx_names)}: MIOpen's matrix kernels want this layout")
    return skip("off: no A/B run on this GPU has shown that it gains anything")


def _on(why: str) -> Decision:
    return apply(why, environment=dict.fromkeys(VARIABLES, "1"))
