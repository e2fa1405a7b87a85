"""The picture of each class's IoU."""

from collections.abc import Sequence
from pathlib import Path

from redkiln.predict.masks.scores import ClassScore
from worker.export.card.figures import GRID, INK, use_fonts

MOST_BARS = 30
"""Classes that are drawn, the worst ones."""
COLOUR = "#3b6ea5"


def draw_bars(scores: Sequence[ClassScore], path: Path, *, title: str) -> None:
    """Draw a bar for the IoU of each class, the worst at the top.

    Args:
        scores: Scores of each class.
        path: File to write.
        title: Title of the picture.
    """
    from matplotlib import pyplot as plt

    use_fonts(title, *(one.name for one in scores))
    known = [(one.iou, one.name) for one in scores if one.iou is not None]
    worst = sorted(known)[:MOST_BARS]
    figure, axis = plt.subplots(figsize=(6.5, 1.2 + 0.32 * max(2, len(worst))))
    places = list(range(len(worst)))
    axis.barh(places, [iou for iou, _ in worst], color=COLOUR, height=0.7)
    for place, (iou, _) in zip(places, worst, strict=True):
        axis.text(iou + 0.01, place, f"{iou:.1%}", va="center", fontsize=9, color=INK)
    axis.set_yticks(places, [name for _, name in worst])
    axis.invert_yaxis()
    axis.set_xlim(0, 1.12)
    axis.set_xlabel("IoU", color=INK)
    axis.grid(axis="x", color=GRID, linewidth=0.8)
    axis.set_axisbelow(True)
    axis.set_title(title, loc="left", fontsize=12, fontweight="bold", color=INK, pad=12)
    axis.tick_params(length=0, colors=INK)
    for spine in axis.spines.values():
        spine.set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
