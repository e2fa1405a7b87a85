"""Let MIOpen process images in channels-last layout.

Problem: torch passes channels-last tensors to MIOpen unchanged only if told to; otherwise every
convolution copies them back and forth, and the layout costs time instead of saving it.
Applies to: CDNA, whose fast MIOpen kernels need this layout; other GPUs only if an A/B run has
shown a gain.
Effect: PYTORCH_MIOPEN_SUGGEST_NHWC=1, and the same variable for batch norm; the trainer then uses
this layout for images and weights in half precision.
Evidence: PyTorch's aten/src/ATen/native/ConvUtils.h (without the variable the layout is not
passed on); gains on consumer cards are unknown, so they are measured.
Remove when: torch passes the layout on by default.
"""

from worker.hardware.patches.decision import Decision, Scope, apply, skip
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES = ("PYTORCH_MIOPEN_SUGGEST_NHWC", "PYTORCH_MIOPEN_SUGGEST_NHWC_BATCHNORM")


def decide(facts: PatchFacts) -> Decision:
    """Enable the layout if it is known, or was measured, to be faster."""
    trial = facts.trials.get("channels_last")
    if trial is not None:
        text = trial.describe()
        return _on(text) if trial.has_won else skip(f"off: {text}")
    if facts.targets and all(target.family.startswith("cdna") for target in facts.targets):
        return _on(f"{', '.join(facts.gfx_names)}: MIOpen's matrix kernels need this layout")
    return skip("off: no A/B run on this GPU has shown a gain")


def _on(why: str) -> Decision:
    return apply(why, environment=dict.fromkeys(VARIABLES, "1"))
