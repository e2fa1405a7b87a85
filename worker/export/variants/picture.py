"""The picture of a model's variants: metric against time."""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

from worker.export.card.figures import LOOKS
from worker.export.variants.result import VariantResult

MARKERS = "osD^vP"
"""Shapes of the variants, so that they differ in more than their colour."""


def draw_variants(results: Sequence[VariantResult], path: Path, *, threads: int) -> None:
    """Draw each variant's metric against the time of a call of one sample; unverified ones hollow.

    The names are in a legend: variants are often so close that names next to them would overlap.

    Args:
        results: The variants.
        path: File to write.
        threads: Threads of the timed calls.
    """
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4))
    for one, (colour, _), marker in zip(results, cycle(LOOKS), cycle(MARKERS), strict=False):
        time = one.time_of(batch=1, threads=threads)
        if time is None or one.metric is None:
            continue
        label = f"{one.name}, {one.size_bytes / 1e6:.2g} MB"
        (drawn,) = axis.plot(
            time, one.metric, marker, color=colour, markersize=8, alpha=0.8, label=label
        )
        if not one.verified:
            drawn.set(markerfacecolor="none", label=f"{label}, unverified")
    named = "1 thread" if threads == 1 else f"{threads} threads"
    axis.set_xlabel(f"median time of a call, batch 1, {named} (ms)")
    axis.set_ylabel(f"test {results[0].metric_name}")
    axis.margins(x=0.1, y=0.25)
    axis.set_xlim(left=0)
    axis.legend(loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False)
    axis.grid(visible=True, alpha=0.3)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)
