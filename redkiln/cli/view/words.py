"""Formats times, sizes, rates and numbers for people."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

_BARS = "▁▂▃▄▅▆▇█"


def duration(seconds: float) -> str:
    """Format a duration: `0.8 s`, `42 s`, `3 min 20 s`, `2 h 05 min`, `4 d 3 h`."""
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def size(num_bytes: int) -> str:
    """Format a size in powers of 1000: `512 B`, `1.2 MB`, `34 GB`."""
    value = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < 999.5 or unit == "TB":
            break
        value /= 1000
    digits = 0 if unit == "B" or value >= 99.95 else 1
    return f"{value:.{digits}f} {unit}"


def count(number: int | float) -> str:
    """`1,234,567`."""
    return f"{number:,.0f}"


def number(value: float) -> str:
    """Format a number with four significant digits: `0.1234`, `12.35`, `3.2e-05`."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = f"{value:.4g}"
        return count(value) if "e" in text else text
    return f"{value:.2e}"


def percent(fraction: float) -> str:
    """`97.8 %`."""
    return f"{100 * fraction:.1f} %"


PRECISION = re.compile(r"map(\d+|_\w+)?")
"""Names of mean average precisions."""
SCORE = re.compile(r"(\w+_)?(f1|auc)(_onnx)?")
"""Names of scores from 0 to 1 that are not shares of samples."""


def metric(name: str, value: float) -> str:
    """Format the value of a metric; accuracies and mean average precision in percent."""
    leaf = name.rpartition("/")[2]
    if "accuracy" in name or PRECISION.fullmatch(leaf) is not None:
        return percent(value)
    return f"{value:.3f}" if SCORE.fullmatch(leaf) is not None else number(value)


def memory(num_bytes: float) -> str:
    """Format memory in powers of 1024, as on GPUs: `34 KiB`, `310 MiB`, `23.5 GiB`."""
    if 0 < num_bytes < 2**20:
        return f"{num_bytes / 2**10:.0f} KiB"
    if num_bytes < 2**30:
        return f"{num_bytes / 2**20:.0f} MiB"
    return f"{num_bytes / 2**30:.1f} GiB"


def reading(name: str, value: float) -> str:
    """Format a sensor's reading by the unit in its name: `97 %`, `212 W`, `71 °C`, `2.40 GHz`."""
    match name.rpartition("_")[2]:
        case "ratio":
            return f"{100 * value:.0f} %"
        case "bytes":
            return memory(value)
        case "watts":
            return f"{value:.0f} W"
        case "celsius":
            return f"{value:.0f} °C"
        case "hz":
            return f"{value / 1e9:.2f} GHz"
    return number(value)


def ago(moment: datetime, now: datetime | None = None) -> str:
    """Format a past time: `just now`, `5 min ago`, `3 h ago`, `2 d ago`, then the date."""
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    if seconds < 10:
        return "just now"
    if seconds < 60:
        return f"{seconds:.0f} s ago"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min ago"
    if seconds < 86_400:
        return f"{seconds / 3600:.0f} h ago"
    if seconds < 14 * 86_400:
        return f"{seconds / 86_400:.0f} d ago"
    return f"{moment.astimezone():%Y-%m-%d}"


def sparkline(values: Sequence[float], width: int) -> str:
    """Draw the course of a value in at most `width` bars, from its lowest to its highest."""
    finite = [value for value in values if value == value and abs(value) != float("inf")]
    if len(finite) < 2 or width < 1:
        return ""
    step = max(1.0, len(finite) / width)
    picked = [finite[min(len(finite) - 1, int((i + 1) * step) - 1)] for i in range(
        min(width, len(finite))
    )]  # fmt: skip
    low, high = min(picked), max(picked)
    span = (high - low) or 1.0
    return "".join(_BARS[round((value - low) / span * (len(_BARS) - 1))] for value in picked)


def device(environment: Mapping[str, Any]) -> str | None:
    """Name what a job trains on, with the engine if it is not torch; None if it is not known."""
    if "engine" in environment:
        return f"{environment.get('engine_device')} with {environment['engine']}"
    if "gpu" in environment:
        return f"{environment['gpu']} ({environment.get('device')})"
    return environment.get("device")


def plural(amount: int, noun: str) -> str:
    """Format a count with its noun: `1 class`, `2 classes`, `1,797 images`."""
    if amount == 1:
        return f"1 {noun}"
    ending = "es" if noun.endswith(("s", "ch", "x")) else "s"
    return f"{count(amount)} {noun}{ending}"
