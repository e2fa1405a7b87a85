"""Measurements in words: lines of a log, and numbers of a table."""

from collections.abc import Iterable, Iterator

from redkiln.benchmark import Comparison, Measurement, Unit


def describe_group(measurements: Iterable[Measurement]) -> Iterator[str]:
    """A line for each measurement."""
    for measured in measurements:
        yield f"{measured.title}: {rate_words(measured)}"


def describe_comparison(comparison: Comparison) -> str:
    """A line for a comparison."""
    if comparison.skipped is not None:
        return f"{comparison.title}: {comparison.skipped}"
    gains = ", ".join(f"{pair.title} {pair.ratio:.2f}x" for pair in comparison.pairs)
    return f"{comparison.title}: {gains}"


def rate_words(measured: Measurement) -> str:
    """`81.2 TFLOP/s, 66 % of the peak`, or why there is none."""
    if measured.rate is None:
        return measured.skipped or "not measured"
    share = "" if measured.share is None else f", {100 * measured.share:.0f} % of the peak"
    return f"{amount_words(measured.rate.value, measured.unit)}{share}"


def amount_words(value: float, unit: Unit) -> str:
    """A rate with its unit; the products of a CPU read better in GFLOP/s."""
    if unit == "TFLOP/s" and value < 1:
        return f"{number_words(1e3 * value)} GFLOP/s"
    return f"{number_words(value)} {unit}"


def number_words(value: float) -> str:
    """Three significant digits, thousands apart: `0.0123`, `81.2`, `1,234`."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
