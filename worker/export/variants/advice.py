"""Recommends a variant in words, and renders the variants for the report."""

from collections.abc import Sequence

from worker.export.variants.result import LARGE_BATCH, VariantResult

FASTER = 1.15
"""Least gain in speed that makes a variant worth recommending; less may be noise."""
SMALLER = 0.6
"""Share of the size from which a variant is worth recommending for its size."""
ALIKE_SIZE = 1.1
LEAST_LOSS = 0.0005
"""Smaller losses are shown as none, because their first digit would be a zero."""


def recommend(results: Sequence[VariantResult], *, threads: int) -> str:
    """Return one or two sentences that say which file to use, and why.

    Args:
        results: All variants, fp32 first.
        threads: Number of all threads.
    """
    first, *others = results
    usable = [one for one in others if one.verified]
    if not usable:
        failed = " No other variant is verified." if others else ""
        return f"Use {first.file}.{failed}"
    fastest = min(usable, key=lambda one: one.time_of(batch=LARGE_BATCH, threads=threads) or 1e9)
    smallest = _choose_smallest(usable, threads=threads)
    gain = _gain(first, fastest, threads=threads)
    share = smallest.size_bytes / first.size_bytes
    if gain >= FASTER:
        text = (
            f"Use {fastest.file}: on this CPU it is {gain:.1f} times as fast as {first.file} "
            f"(batch {LARGE_BATCH}) and {fastest.size_bytes / first.size_bytes:.2f} of its size, "
            f"with {_describe_loss(fastest)}."
        )
        if smallest.name != fastest.name and share < 0.8 * fastest.size_bytes / first.size_bytes:
            text += f" Where size matters most, {smallest.file} is {share:.2f} of its size."
        return text
    if share <= SMALLER:
        speed = _gain(first, smallest, threads=threads)
        return (
            f"Use {first.file} for speed; no variant is clearly faster on this CPU. Where size "
            f"matters, {smallest.file} is {share:.2f} of its size at {speed:.2g} of its speed "
            f"(batch {LARGE_BATCH}), with {_describe_loss(smallest)}."
        )
    return f"Use {first.file}; the other variants are neither clearly faster nor much smaller."


def _choose_smallest(usable: Sequence[VariantResult], *, threads: int) -> VariantResult:
    """Return the fastest of the variants whose size is within a tenth of the smallest."""
    least = min(one.size_bytes for one in usable)
    small = [one for one in usable if one.size_bytes <= ALIKE_SIZE * least]
    return min(small, key=lambda one: one.time_of(batch=LARGE_BATCH, threads=threads) or 1e9)


def render_variants(results: Sequence[VariantResult], *, advice: str, picture: str) -> str:
    """Render the report's section as Markdown.

    Args:
        results: All variants, fp32 first.
        advice: The recommendation.
        picture: File name of the figure.
    """
    settings = [(one.batch, one.threads) for one in results[0].latency]
    times = " | ".join(f"batch {b}, {_count(t)}" for b, t in settings)
    head = f"| file | verdict | {results[0].metric_name} | size | {times} |".replace("|  |", "|")
    rule = "|---|---|---|---|" + "---|" * len(settings)
    rows = "\n".join(_row(one, settings, whole=results[0].size_bytes) for one in results)
    misses = [f"- {one.file or one.name}: {'; '.join(one.misses)}" for one in results if one.misses]
    kept = [
        f"- {one.file}: these layers stay in float32, because they lose most: "
        f"{', '.join(one.details['float32_layers'])}"
        for one in results
        if one.details.get("float32_layers")
    ]
    listed = "\n".join(misses + kept)
    if not settings:
        return "\n\n".join(filter(None, ("## Variants", f"{head}\n{rule}\n{rows}", listed)))
    cpu = results[0].cpu
    kind = ", ".join(cpu.get("features", [])) or "unknown features"
    where = f"{cpu.get('model') or cpu.get('architecture', '')} ({kind})"
    return (
        f"## Variants\n\n{advice}\n\nTimes are the median and the 95th percentile of a call in "
        f"milliseconds, measured alternately on {where}.\n\n{head}\n{rule}\n{rows}\n\n"
        f"![Metric against time]({picture})" + (f"\n\n{listed}" if listed else "")
    )


def _row(one: VariantResult, settings: list[tuple[int, int]], *, whole: int) -> str:
    if not one.file:
        return f"| {one.name} | not written | | |{' |' * len(settings)}"
    known = {(time.batch, time.threads): time for time in one.latency}
    times = " | ".join(
        f"{known[key].median_ms:.3g} ({known[key].p95_ms:.3g})" if key in known else ""
        for key in settings
    )
    verdict = "verified" if one.verified else "**unverified**"
    ends = f" ({one.interval[0]:.4f} to {one.interval[1]:.4f})" if one.interval else ""
    size = f"{one.size_bytes / 1e6:.2f} MB, {one.size_bytes / whole:.2f}"
    return f"| {one.file} | {verdict} | {one.metric:.4f}{ends} | {size} | {times} |"


def _gain(first: VariantResult, other: VariantResult, *, threads: int) -> float:
    before = first.time_of(batch=LARGE_BATCH, threads=threads)
    after = other.time_of(batch=LARGE_BATCH, threads=threads)
    return before / after if before and after else 0.0


def _describe_loss(one: VariantResult) -> str:
    if one.drop is None or one.drop < LEAST_LOSS:
        return f"no loss of {one.metric_name}"
    if one.metric_name == "accuracy":
        return f"{100 * one.drop:.1f} points less accuracy"
    return f"{one.drop:.1%} more {one.metric_name}"


def _count(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"
