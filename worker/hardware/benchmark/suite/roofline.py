"""The roofline: the reached TFLOP/s of each workload over its arithmetic intensity.

The roof is the lower of the peak rate and of the bandwidth times the intensity. Intensities count
the traffic of unfused layers, so a workload may lie above the slope.

Source: S. Williams et al., Roofline: An Insightful Visual Performance Model, CACM 52(4), 2009.
"""

from pathlib import Path
from typing import Any

from redkiln.views.suite import SuiteResult, SuiteTest

INK, MUTED, GRID = "#22262b", "#7a828c", "#e4e7eb"
COLOURS = {"inference": "#22577a", "training": "#c8553d"}


def draw_roofline(result: SuiteResult, path: Path) -> None:
    """Draw the workloads, and the roof as far as the peaks are known."""
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(8.4, 5.2))
    points = [(test, place) for test in result.tests if (place := find_place(test)) is not None]
    for mode, colour in COLOURS.items():
        mine = [place for test, place in points if test.mode == mode]
        if mine:
            axis.scatter(*zip(*mine, strict=True), color=colour, label=mode, zorder=3)
    for test, (x, y) in points:
        axis.annotate(test.id.partition("/")[0], (x, y), xytext=(5, 4), fontsize=7.5,
                      textcoords="offset points", color=INK)  # fmt: skip
    _draw_roof(axis, result, [x for _, (x, _) in points] or [1.0])
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("FLOP per byte moved by unfused layers", color=MUTED)
    axis.set_ylabel("TFLOP/s", color=MUTED)
    axis.grid(color=GRID, which="major")
    axis.legend(frameon=False)
    for name, spine in axis.spines.items():
        spine.set_visible(name in ("left", "bottom"))
    axis.set_title(
        f"{result.machine.device}, {result.precision}, {result.sizes} sizes, {result.at:%Y-%m-%d}",
        loc="left", fontsize=11, color=INK,
    )  # fmt: skip
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def find_place(test: SuiteTest) -> tuple[float, float] | None:
    """Return a workload's intensity and rate; None if it was not measured."""
    if test.tflops is None or not test.num_bytes:
        return None
    return test.flop / test.num_bytes, test.tflops


def find_roof(result: SuiteResult, intensity: float) -> float | None:
    """Return the most TFLOP/s at an intensity; None if neither peak is known."""
    limits = [result.peak_tflops] if result.peak_tflops else []
    if result.peak_bytes_per_second:
        limits.append(result.peak_bytes_per_second * intensity / 1e12)
    return min(limits, default=None)


def _draw_roof(axis: Any, result: SuiteResult, intensities: list[float]) -> None:
    low, high = min(intensities) / 3, max(intensities) * 3
    steps = [low * (high / low) ** (number / 60) for number in range(61)]
    roof = [(x, y) for x in steps if (y := find_roof(result, x)) is not None]
    if roof:
        axis.plot(*zip(*roof, strict=True), color=MUTED, linewidth=1.2, zorder=1)
