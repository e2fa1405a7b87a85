"""Draws one value of each class as a bar."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from worker.export.card.figures import GRID, INK, VALIDATION, use_fonts

MOST_BARS = 40
"""Classes that are drawn: the worst ones."""


def draw_class_bars(
    classes: Sequence[str], values: NDArray[np.float64], path: Path, *, title: str, label: str
) -> None:
    """Draw a share of each class, the highest on top; of many classes, the lowest.

    Args:
        classes: Names of the classes.
        values: (K,) their values in [0, 1].
        path: The picture to write.
        title: Title of the picture.
        label: Name of the value.
    """
    from matplotlib import pyplot as plt

    use_fonts(title, *classes)
    order = np.argsort(values, kind="stable")[:MOST_BARS]
    figure, axis = plt.subplots(figsize=(6.4, 1.4 + 0.3 * len(order)))
    axis.barh(range(len(order)), values[order], color=VALIDATION, height=0.7)
    axis.set_yticks(range(len(order)), [classes[place] for place in order])
    for place, value in enumerate(values[order]):
        axis.text(value + 0.01, place, f"{value:.1%}", va="center", color=INK, fontsize=9)
    axis.set_xlim(0, 1.1)
    axis.set_xticks(np.linspace(0, 1, 6))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    shown = f", the lowest {len(order)} of {len(values)}" if len(order) < len(values) else ""
    axis.set_xlabel(f"{label}{shown}", color=INK)
    axis.set_title(title, loc="left", fontsize=12, fontweight="bold", color=INK, pad=12)
    axis.grid(axis="x", color=GRID, linewidth=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(length=0, colors=INK)
    for spine in axis.spines.values():
        spine.set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
