"""Measurements as lines of a log."""

from collections.abc import Iterable, Iterator

from redkiln.views.benchmark import Comparison, Measurement, amount_words


def describe_group(measurements: Iterable[Measurement]) -> Iterator[str]:
    """Yield a line for each measurement."""
    for measured in measurements:
        yield f"{measured.title}: {rate_words(measured)}"


def describe_comparison(comparison: Comparison) -> str:
    """Format a comparison as one line."""
    if comparison.skipped is not None:
        return f"{comparison.title}: {comparison.skipped}"
    gains = ", ".join(f"{pair.title} {pair.ratio:.2f}x" for pair in comparison.pairs)
    return f"{comparison.title}: {gains}"


def rate_words(measured: Measurement) -> str:
    """Format a rate: `81.2 TFLOP/s, 66 % of the peak`, or the reason why it is missing."""
    if measured.rate is None:
        return measured.skipped or "not measured"
    share = "" if measured.share is None else f", {100 * measured.share:.0f} % of the peak"
    return f"{amount_words(measured.rate.value, measured.unit)}{share}"
