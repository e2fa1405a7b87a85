"""The picture of a model's variants: metric against time."""

from collections.abc import Sequence
from pathlib import Path

from worker.export.card.figures import VALIDATION
from worker.export.variants.result import VariantResult


def draw_variants(results: Sequence[VariantResult], path: Path, *, threads: int) -> None:
    """Draw each variant's metric against the time of a call of one sample; unverified ones hollow.

    Args:
        results: The variants.
        path: File to write.
        threads: Threads of the timed calls.
    """
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4))
    for one in results:
        time = one.time_of(batch=1, threads=threads)
        if time is None or one.metric is None:
            continue
        fill = VALIDATION if one.verified else "none"
        axis.plot(time, one.metric, "o", markersize=8, color=VALIDATION, markerfacecolor=fill)
        axis.annotate(
            f"{one.name}, {one.size_bytes / 1e6:.2g} MB",
            (time, one.metric),
            xytext=(7, 5),
            textcoords="offset points",
        )
    axis.set_xlabel(f"median time of a call, batch 1, {threads} threads (ms)")
    axis.set_ylabel(f"test {results[0].metric_name}")
    axis.set_xlim(left=0)
    axis.margins(x=0.25, y=0.25)
    axis.grid(visible=True, alpha=0.3)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)
