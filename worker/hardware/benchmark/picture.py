"""`benchmark.png`: the measured rates in four panels, with the peaks as far as they are known.

The caller has chosen matplotlib's backend and the folder of its cache.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from redkiln.views.benchmark import BenchmarkResult, Measurement, number_words

INK = "#22262b"
MUTED = "#7a828c"
GRID = "#e4e7eb"
PRECISIONS = {"fp32": "#22577a", "fp16": "#c8553d", "bf16": "#e09f3e"}
LAYOUTS = {"contiguous": "#9db4c0", "channels_last": "#22577a"}
BANDWIDTH = "#38a3a5"
BAR = 0.26


def draw_benchmark(result: BenchmarkResult, path: Path, *, title: str) -> None:
    """Draw the results; a panel without a number is omitted."""
    from matplotlib import pyplot as plt

    panels = [
        draw
        for draw, tests in (
            (_draw_products, ("matmul",)),
            (_draw_steps, ("training",)),
            (_draw_convolutions, ("convolution",)),
            (_draw_bandwidth, ("memory", "copies", "allreduce")),
        )
        if _measured(result, *tests)
    ]
    columns = min(2, max(1, len(panels)))
    rows = max(1, -(-len(panels) // columns))
    figure, axes = plt.subplots(rows, columns, figsize=(6.2 * columns, 3.9 * rows), squeeze=False)
    flat = list(axes.flat)
    for axis in flat[len(panels) :]:
        axis.remove()
    for draw, axis in zip(panels, flat, strict=False):
        draw(axis, result)
    machine = result.machine
    target = f" ({machine.gfx})" if machine.gfx else ""
    figure.suptitle(title, x=0.01, y=0.995, ha="left", fontsize=13, fontweight="bold", color=INK)
    versions = f"torch {machine.versions.get('torch')}, {result.at:%Y-%m-%d}"
    subtitle = f"{machine.device}{target}, {versions}"
    figure.text(0.01, 0.995 - 0.26 / (3.9 * rows), subtitle, fontsize=9, color=MUTED, va="top")
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.36 / (3.9 * rows)))
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_products(axis: Any, result: BenchmarkResult) -> None:
    found = _measured(result, "matmul")
    sizes = sorted({m.size or 0 for m in found})
    scale, unit = _scale(found)
    _draw_groups(
        axis,
        found,
        [str(size) for size in sizes],
        place=lambda m: sizes.index(m.size or 0),
        scale=scale,
    )
    _draw_peaks(axis, found, scale=scale)
    _finish(axis, "matrix products", unit)
    axis.set_xlabel("side of the square matrices", color=MUTED, fontsize=9)


def _draw_peaks(axis: Any, found: Sequence[Measurement], *, scale: float) -> None:
    """Draw a line for each peak, labelled with the types that have it."""
    peaks: dict[float, list[str]] = {}
    for precision in PRECISIONS:
        peak = next((m.peak for m in found if m.precision == precision and m.peak), None)
        if peak is not None:
            peaks.setdefault(scale * peak, []).append(precision)
    for peak, names in peaks.items():
        color = PRECISIONS[names[0]]
        axis.axhline(peak, color=color, linewidth=1.2, linestyle=(0, (5, 3)), zorder=3)
        axis.text(
            0.01,
            peak,
            f"computed peak {', '.join(names)}: {number_words(peak)}",
            color=color,
            fontsize=8,
            va="bottom",
            transform=axis.get_yaxis_transform(),
            zorder=4,
            bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"},
        )


def _draw_convolutions(axis: Any, result: BenchmarkResult) -> None:
    best: dict[tuple[str, str | None], Measurement] = {}
    for measured in _measured(result, "convolution"):
        key = (measured.id.split("/")[1], measured.precision)
        if key not in best or _value(measured) > _value(best[key]):
            best[key] = measured
    names = ["forward", "step"]
    scale, unit = _scale(list(best.values()))
    _draw_groups(
        axis,
        list(best.values()),
        ["forward", "forward and backward"],
        place=lambda m: names.index(m.id.split("/")[1]),
        scale=scale,
    )
    _finish(axis, "3x3 convolution, its better layout", unit)


def _draw_steps(axis: Any, result: BenchmarkResult) -> None:
    found = _measured(result, "training")
    precisions = [name for name in PRECISIONS if any(m.precision == name for m in found)]
    for number, (layout, color) in enumerate(LAYOUTS.items()):
        chosen = [m for m in found if m.layout == layout]
        offset = (number - 0.5) * 1.4 * BAR
        places = [precisions.index(m.precision or "") + offset for m in chosen]
        _draw_bars(axis, places, chosen, width=1.3 * BAR, color=color, label=layout)
    axis.set_xticks(range(len(precisions)), precisions)
    _finish(axis, "ResNet-18 training step", "images/s")


def _draw_bandwidth(axis: Any, result: BenchmarkResult) -> None:
    found = _measured(result, "memory", "copies", "allreduce")
    names = [m.title.replace(" from ", "\nfrom ").replace(", ", ",\n", 1) for m in found]
    places = list(range(len(found)))
    axis.barh(places, [_value(m) for m in found], color=BANDWIDTH, height=0.6, zorder=2)
    largest = max(max(_value(m), m.peak or 0.0) for m in found)
    for place, measured in zip(places, found, strict=True):
        words = number_words(_value(measured))
        if measured.share is not None:
            words += f"  ({measured.share:.0%} of {number_words(measured.peak or 0.0)})"
        end = max(_value(measured), measured.peak or 0.0)
        axis.text(end + 0.01 * largest, place, words, va="center", fontsize=8.5,
                  color=INK)  # fmt: skip
        if measured.peak:
            axis.plot([measured.peak] * 2, [place - 0.38, place + 0.38], color=MUTED, linewidth=1.5)
    axis.set_yticks(places, names, fontsize=9)
    axis.invert_yaxis()
    axis.set_xlim(0, 1.35 * largest)
    _finish(axis, "bandwidth", "", is_horizontal=True)
    axis.set_xlabel("GB/s", color=MUTED, fontsize=9)


def _draw_groups(
    axis: Any,
    found: Sequence[Measurement],
    names: Sequence[str],
    *,
    place: Callable[[Measurement], float],
    scale: float,
) -> None:
    present = [name for name in PRECISIONS if any(m.precision == name for m in found)]
    for number, precision in enumerate(present):
        chosen = [m for m in found if m.precision == precision]
        offset = (number - (len(present) - 1) / 2) * 1.06 * BAR
        places = [place(m) + offset for m in chosen]
        _draw_bars(
            axis,
            places,
            chosen,
            width=BAR,
            color=PRECISIONS[precision],
            label=precision,
            scale=scale,
        )
    axis.set_xticks(range(len(names)), names)


def _draw_bars(
    axis: Any,
    places: Sequence[float],
    measured: Sequence[Measurement],
    *,
    width: float,
    color: str,
    label: str,
    scale: float = 1.0,
) -> None:
    values = [scale * _value(m) for m in measured]
    whiskers = [scale * _value(m) * (m.rate.spread if m.rate else 0.0) / 2 for m in measured]
    axis.bar(
        places, values, width=width, color=color, label=label, zorder=2,
        yerr=whiskers, error_kw={"ecolor": INK, "elinewidth": 0.9, "capsize": 2},
    )  # fmt: skip
    for place, value, whisker in zip(places, values, whiskers, strict=True):
        axis.annotate(
            number_words(value), (place, value + whisker), textcoords="offset points",
            xytext=(0, 3), ha="center", fontsize=7.5, color=INK,
        )  # fmt: skip


def _finish(axis: Any, title: str, unit: str, *, is_horizontal: bool = False) -> None:
    axis.set_title(title, loc="left", fontsize=11, color=INK)
    axis.set_ylabel(unit, color=MUTED, fontsize=9)
    axis.grid(color=GRID, linewidth=0.8, axis="x" if is_horizontal else "y")
    axis.set_axisbelow(True)
    axis.tick_params(which="both", length=0, colors=INK)
    for name, spine in axis.spines.items():
        spine.set_visible(name == ("left" if is_horizontal else "bottom"))
        spine.set_color(MUTED)
    if not is_horizontal:
        axis.margins(y=0.16)
        axis.legend(frameon=False, fontsize=9, labelcolor=INK, loc="upper left", ncols=3)
        axis.set_ylim(0, axis.get_ylim()[1] * 1.1)


def _scale(measured: Sequence[Measurement]) -> tuple[float, str]:
    """Return a factor and a unit; the products of a CPU are more readable in GFLOP/s."""
    is_small = max(_value(m) for m in measured) < 1
    return (1e3, "GFLOP/s") if is_small else (1.0, "TFLOP/s")


def _measured(result: BenchmarkResult, *tests: str) -> list[Measurement]:
    return [m for m in result.measurements if m.test in tests and m.rate is not None]


def _value(measured: Measurement) -> float:
    assert measured.rate is not None
    return measured.rate.value
