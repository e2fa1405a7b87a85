"""The picture of precision against recall.

Shapes: R recalls, K classes.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from worker.export.card.figures import GRID, INK, LOOKS, use_fonts

MOST_CURVES = len(LOOKS)
"""Classes whose curves are drawn, the worst ones, in addition to the mean."""


def draw_curves(
    precision: NDArray[np.float64], classes: list[str], path: Path, *, title: str
) -> None:
    """Draw precision against recall at an overlap of 0.5.

    Args:
        precision: (R, K) at evenly spaced recalls from 0 to 1; -1 for classes without objects.
        classes: Names by label.
        path: File to write.
        title: Title of the picture.
    """
    from matplotlib import pyplot as plt

    use_fonts(title, *classes)
    recalls = np.linspace(0, 1, len(precision))
    known = [label for label in range(len(classes)) if precision[0, label] >= 0]
    worst = sorted(known, key=lambda label: precision[:, label].mean())[:MOST_CURVES]
    figure, axis = plt.subplots(figsize=(6.5, 4.8))
    for label, (colour, line) in zip(worst, LOOKS, strict=False):
        share, name = precision[:, label].mean(), classes[label]
        axis.plot(
            recalls, precision[:, label], color=colour, linestyle=line, linewidth=1.4,
            label=f"{name} {share:.1%}",
        )  # fmt: skip
    if known:
        mean = precision[:, known].mean(axis=1)
        axis.plot(recalls, mean, color=INK, linewidth=2.2, label=f"mean {mean.mean():.1%}")
        axis.legend(frameon=False, fontsize=9, labelcolor=INK, loc="best", handlelength=3)
    axis.set_xlabel("recall", color=INK)
    axis.set_ylabel("precision", color=INK)
    axis.set_xlim(0, 1.02)
    axis.set_ylim(0, 1.02)
    axis.grid(color=GRID, linewidth=0.8)
    axis.set_title(title, loc="left", fontsize=12, fontweight="bold", color=INK, pad=12)
    axis.tick_params(length=0, colors=INK)
    for spine in axis.spines.values():
        spine.set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
