"""Leave MIOpen's way to choose convolutions as it is.

Problem: MIOpen's fast find mode starts quicker, and is often recommended; on cards for which AMD
ships no database, which all consumer cards are, it may choose the naive convolution.
Applies to: every AMD GPU.
Effect: none; MIOPEN_FIND_MODE stays unset, and torch asks for a search where shapes are fixed
(`convolution_search`), whose results `kernel_caches` keeps.
Evidence: ROCm/TheRock#1899 (ConvDirectNaiveConvFwd chosen by the fast mode); MIOpen's documentation
of find modes (the default changed from release to release and is never the fast one).
Remove when: MIOpen ships databases for consumer cards; then FAST is worth an A/B run.
"""

from worker.hardware.patches.decision import Decision, Scope, skip
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES = ("MIOPEN_FIND_MODE", "MIOPEN_FIND_ENFORCE")


def decide(facts: PatchFacts) -> Decision:
    """Nothing is set."""
    names = ", ".join(facts.gfx_names) or "this GPU"
    return skip(f"MIOpen's default is kept: its fast mode can choose a naive kernel on {names}")
