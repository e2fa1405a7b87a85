"""The figures of a report: curves, the confusion matrix, and predicted against true values."""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from worker.checkpoints.history import History, Points
from worker.export.card.markdown import number
from worker.export.target import CurveStyle
from worker.fonts import find_fonts

INK = "#22262b"
MUTED = "#7a828c"
GRID = "#e4e7eb"
TRAIN = "#dd7a00"
VALIDATION = "#1b4f8a"
"""An orange and a blue that are far apart for all kinds of colour blindness and in grey print."""
DASHED = (0, (6, 2))
"""Line of the validation, so that it differs from the training in more than its colour."""
LOOKS = (
    ("#1b4f8a", "-"),
    ("#dd7a00", (0, (6, 2))),
    ("#00876c", (0, (2, 1.5))),
    ("#b5468f", (0, (7, 2, 1.5, 2))),
    ("#4aa3df", "-"),
    ("#6b4a1b", (0, (6, 2))),
    ("#c9a800", (0, (2, 1.5))),
    ("#98a0a8", (0, (7, 2, 1.5, 2))),
    ("#c0392b", "-"),
    ("#2a2a72", (0, (2, 1.5))),
)
"""Colour and line of the curves of up to ten classes."""
SMOOTHING_FROM = 60
"""Training curves with more points than this are drawn pale, with their running mean on top."""

SCATTERED_SAMPLES = 3000
"""If there are more points than this, their density is drawn."""
ANNOTATED_CLASSES = 20
LABELLED_CLASSES = 60


def use_quiet_backend(cache_dir: Path | None = None) -> None:
    """Draw without a display, and keep matplotlib's font list in a writable folder.

    Args:
        cache_dir: The worker's cache; None leaves the folder to the environment.
    """
    if cache_dir is not None:
        folder = cache_dir / "matplotlib"
        folder.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("MPLCONFIGDIR", str(folder))
    import matplotlib as mpl

    mpl.use("Agg")


def use_fonts(*texts: str) -> None:
    """Let the next figure draw some texts in any script that the machine has fonts for."""
    import matplotlib as mpl
    from matplotlib.font_manager import FontProperties, fontManager

    families = []
    for path in find_fonts(texts):
        family = FontProperties(fname=path).get_name()
        if all(font.name != family for font in fontManager.ttflist):
            fontManager.addfont(path)
        families.append(family)
    mpl.rcParams["font.family"] = families


def draw_curves(
    history: History,
    path: Path,
    *,
    title: str,
    best_step: int,
    steps_per_epoch: int,
    metric: CurveStyle,
) -> None:
    """Draw loss and the task's metric over epochs, side by side, and mark the best epoch."""
    from matplotlib import pyplot as plt

    use_fonts(title)
    has_metric = metric.name in history.series
    figure, axes = plt.subplots(
        1, 1 + has_metric, figsize=(11 if has_metric else 6.5, 4.2), squeeze=False
    )
    left = axes[0, 0]
    losses = history.series.get("train/loss", [])
    x, y = _columns(losses, steps_per_epoch)
    if len(x) > SMOOTHING_FROM:
        left.plot(x, y, color=TRAIN, alpha=0.18, linewidth=0.8)
    left.plot(x, _smooth(y), color=TRAIN, linewidth=1.8, label="training")
    _draw_validation(left, history.series.get("val/loss", []), steps_per_epoch)
    _, validation = _columns(history.series.get("val/loss", []), steps_per_epoch)
    positive = y[y > 0]
    if len(positive) and positive.max() / positive.min() > 30:
        left.set_yscale("log")
        # Single batches may be far below the rest of the curve.
        _limit_below(left, [_smooth(y), validation])
        left.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    _finish(left, "loss", best_step / steps_per_epoch)
    if has_metric:
        _draw_metric(axes[0, 1], history.series[metric.name], metric, best_step, steps_per_epoch)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold", color=INK)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_confusion(
    matrix: NDArray[np.int64], classes: list[str], path: Path, *, title: str
) -> None:
    """Draw the share of each true class by predicted class; counts are written if they fit."""
    from matplotlib import pyplot as plt

    use_fonts(title, *classes)
    num = len(classes)
    share = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    side = min(max(4.5, 0.52 * num + 2), 14)
    figure, axis = plt.subplots(figsize=(side + 0.8, side))
    image = axis.imshow(share, cmap="Blues", vmin=0, vmax=1)
    if num <= LABELLED_CLASSES:
        rotation = 45 if max(map(len, classes)) > 2 else 0
        ha = "right" if rotation else "center"
        axis.set_xticks(range(num), classes, rotation=rotation, ha=ha, rotation_mode="anchor")
        axis.set_yticks(range(num), classes)
    if num <= ANNOTATED_CLASSES:
        for true, predicted in np.ndindex(num, num):
            count = matrix[true, predicted]
            if count:
                color = "white" if share[true, predicted] > 0.55 else INK
                axis.text(
                    predicted, true, str(count), ha="center", va="center", color=color, fontsize=9
                )
    axis.set_xlabel("predicted", color=INK)
    axis.set_ylabel("true", color=INK)
    axis.set_title(title, loc="left", fontsize=12, fontweight="bold", color=INK, pad=12)
    axis.tick_params(length=0, colors=INK)
    for spine in axis.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(image, ax=axis, fraction=0.046, pad=0.03)
    bar.outline.set_visible(False)
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    bar.ax.tick_params(length=0, colors=MUTED)
    bar.set_label("share of the true class", color=MUTED)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_predictions(
    outputs: NDArray[np.float32],
    targets: NDArray[np.float64],
    path: Path,
    *,
    title: str,
    target: str,
) -> None:
    """Draw predicted against true values; they are equal on the diagonal."""
    from matplotlib import pyplot as plt

    use_fonts(title, target)
    figure, axis = plt.subplots(figsize=(6, 5.6))
    low = float(min(outputs.min(), targets.min()))
    high = float(max(outputs.max(), targets.max()))
    margin = 0.04 * (high - low) or 1.0
    limits = (low - margin, high + margin)
    if len(targets) > SCATTERED_SAMPLES:
        counts = axis.hexbin(
            targets, outputs, gridsize=60, extent=(*limits, *limits), bins="log", mincnt=1,
            cmap="Blues", linewidths=0,
        )  # fmt: skip
        bar = figure.colorbar(counts, ax=axis, fraction=0.046, pad=0.03)
        bar.outline.set_visible(False)
        bar.ax.tick_params(which="both", length=0, colors=MUTED)
        bar.set_label("samples", color=MUTED)
    else:
        alpha = 0.7 if len(targets) <= 500 else 0.35
        axis.plot(
            targets, outputs, "o", color=VALIDATION, alpha=alpha, markersize=5, markeredgewidth=0
        )
    axis.plot(limits, limits, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    axis.set_xlim(limits)
    axis.set_ylim(limits)
    axis.set_aspect("equal")
    axis.set_xlabel(f"true {target}", color=INK)
    axis.set_ylabel(f"predicted {target}", color=INK)
    axis.set_title(title, loc="left", fontsize=12, fontweight="bold", color=INK, pad=12)
    axis.grid(color=GRID, linewidth=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(length=0, colors=INK)
    for spine in axis.spines.values():
        spine.set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_metric(  # type: ignore[no-untyped-def]
    axis,  # noqa: ANN001
    points: Points,
    metric: CurveStyle,
    best_step: int,
    steps_per_epoch: int,
) -> None:
    _draw_validation(axis, points, steps_per_epoch)
    epoch, best = best_step / steps_per_epoch, dict(points).get(best_step)
    if best is not None:
        axis.plot([epoch], [best], "o", color=VALIDATION, markersize=7)
        axis.annotate(
            f"{best:.1%}" if metric.is_share else number(best),
            (epoch, best),
            textcoords="offset points",
            xytext=(0, -18 if metric.is_share else 12),
            ha="center",
            color=INK,
            bbox={"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none"},
        )
    if metric.is_share:
        _end_at_one(axis)
        axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g}%")
    _finish(axis, metric.title, epoch)


def _draw_validation(axis, points: Points, steps_per_epoch: int) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    if not points:
        return
    x, y = _columns(points, steps_per_epoch)
    marker = "o" if len(x) <= 40 else ""
    axis.plot(
        x, y, color=VALIDATION, linestyle=DASHED, linewidth=1.8, marker=marker, markersize=4,
        label="validation",
    )  # fmt: skip


def _limit_below(axis, curves: list[NDArray[np.float64]]) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Keep curves visible on a logarithmic axis, with some room below them."""
    values = np.concatenate(curves)
    positive = values[values > 0]
    if len(positive):
        axis.set_ylim(bottom=positive.min() / 2)


def _end_at_one(axis) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """End the axis of a share just above 1, so that a line at 1 is visible."""
    low, high = axis.get_ylim()
    ticks = [tick for tick in axis.get_yticks() if low <= tick <= 1]
    axis.set_ylim(low, min(high, 1 + 0.03 * (1 - low)))
    axis.set_yticks(ticks)


def _finish(axis, title: str, best_epoch: float) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    axis.axvline(best_epoch, color=MUTED, linewidth=1, linestyle=(0, (1, 2)), label="best epoch")
    axis.set_title(title, loc="left", fontsize=11, color=INK)
    axis.set_xlabel("epoch", color=INK)
    axis.grid(color=GRID, linewidth=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(which="both", length=0, colors=INK)
    for name, spine in axis.spines.items():
        spine.set_visible(name == "bottom")
        spine.set_color(MUTED)
    axis.set_xlim(left=0)
    axis.xaxis.get_major_locator().set_params(integer=best_epoch >= 1)
    axis.legend(frameon=False, fontsize=9, labelcolor=INK, handlelength=3)


def _columns(
    points: Points, steps_per_epoch: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    array = np.array(points, dtype=np.float64).reshape(-1, 2)
    return array[:, 0] / steps_per_epoch, array[:, 1]


def _smooth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a centred running mean over about a fiftieth of the points; short curves unchanged."""
    if len(values) <= SMOOTHING_FROM:
        return values
    width = max(3, len(values) // 50) | 1
    padded = np.pad(values, width // 2, mode="edge")
    return np.convolve(padded, np.ones(width) / width, mode="valid")
