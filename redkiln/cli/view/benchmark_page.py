"""A benchmark in a terminal: numbers, recommendations, and two machines side by side."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from redkiln.cli.view import words
from redkiln.cli.view.render import Column, print_table
from redkiln.views.benchmark import (
    BenchmarkResult,
    Comparison,
    Measurement,
    Rate,
    SideBySide,
    amount_words,
    compare_results,
)

LOW_SHARE = 0.4
EQUAL = 0.03
"""Ratios that differ from 1 by less than this count as equal."""


def print_benchmark(console: Console, result: BenchmarkResult) -> None:
    """Print the numbers, then the recommendations that follow from them."""
    _line(console, Text.assemble((_device(result), "bold"), f", {_versions(result)}"))
    for note in result.notes:
        _line(console, Text(note, style="yellow"))
    console.print()
    measured = [m for m in result.measurements if m.rate is not None]
    columns = (
        Column("test", when_narrow="cut"),
        Column("median", is_right=True),
        Column("spread", is_right=True),
        Column("n", is_right=True, when_narrow="drop"),
        Column("of peak", is_right=True),
    )
    print_table(console, columns, [_row(item) for item in measured])
    for comparison in result.comparisons:
        _print_comparison(console, comparison)
    _print_skipped(console, [m for m in result.measurements if m.rate is None])
    if result.recommendations:
        console.print()
        _line(console, Text("Recommendations", style="bold"))
        for item in result.recommendations:
            setting = Text(f"  {item.setting}" if item.setting else "", style="cyan")
            _line(console, Text(f"  {item.text}") + setting)


def print_side_by_side(console: Console, first: BenchmarkResult, second: BenchmarkResult) -> None:
    """Print two results side by side, with the ratio of the second to the first."""
    for name, result in (("first ", first), ("second", second)):
        facts = f" {_device(result)} ({result.machine.hostname}, {result.at:%Y-%m-%d})"
        _line(console, Text.assemble((name, "bold"), facts))
    console.print()
    columns = (
        Column("test", when_narrow="cut"),
        Column("first", is_right=True),
        Column("second", is_right=True),
        Column("second / first", is_right=True),
    )
    print_table(console, columns, [_pair(row) for row in compare_results(first, second)])


def _row(measured: Measurement) -> tuple[Text | str, ...]:
    rate = measured.rate
    assert rate is not None
    share = Text("")
    if measured.share is not None:
        is_low = measured.test == "matmul" and measured.share < LOW_SHARE
        share = Text(f"{100 * measured.share:.0f} %", style="yellow" if is_low else "")
    return (
        measured.title,
        Text(amount_words(rate.value, measured.unit), style="bold"),
        f"{100 * rate.spread:.1f} %" if rate.num_samples > 1 else "",
        str(rate.num_samples),
        share,
    )


def _print_comparison(console: Console, comparison: Comparison) -> None:
    console.print()
    head = Text(comparison.title, style="bold")
    if comparison.skipped is not None:
        _line(console, head + Text(f": {comparison.skipped}", style="not bold dim"))
        return
    _line(console, head)
    columns = (
        Column("test", when_narrow="cut"),
        Column("without", is_right=True),
        Column("with", is_right=True),
        Column("ratio", is_right=True),
    )
    rows = [
        (
            pair.title,
            amount_words(pair.without, pair.unit),
            amount_words(pair.with_, pair.unit),
            _ratio(pair.ratio),
        )
        for pair in comparison.pairs
    ]
    print_table(console, columns, rows)
    if comparison.agrees is False:
        gap = comparison.largest_difference or 0.0
        _line(console, Text(f"RESULTS DIFFER by {gap:.1e} of the largest output", "bold red"))


def _print_skipped(console: Console, skipped: Sequence[Measurement]) -> None:
    by_reason: dict[str, list[str]] = {}
    for measured in skipped:
        by_reason.setdefault(measured.skipped or "not measured", []).append(measured.title)
    if by_reason:
        console.print()
        _line(console, Text("Not measured", style="bold"))
    for why, titles in by_reason.items():
        more = f" and {words.plural(len(titles) - 1, 'other')}" if len(titles) > 1 else ""
        _line(console, Text.assemble(f"  {titles[0]}{more}", (f": {why}", "dim")))


def _pair(row: SideBySide) -> tuple[Text | str, ...]:
    def cell(rate: Rate | None) -> str:
        return "" if rate is None else amount_words(rate.value, row.unit)

    return (row.title, cell(row.first), cell(row.second), _ratio(row.ratio))


def _ratio(ratio: float | None) -> Text:
    if ratio is None:
        return Text("")
    style = "" if abs(ratio - 1) <= EQUAL else "green" if ratio > 1 else "red"
    return Text(f"{ratio:.2f}x", style=style)


def _device(result: BenchmarkResult) -> str:
    machine = result.machine
    return f"{machine.device} ({machine.gfx})" if machine.gfx else machine.device


def _versions(result: BenchmarkResult) -> str:
    names: Iterable[str] = ("torch", "rocm", "cuda")
    known = [f"{n} {result.machine.versions[n]}" for n in names if result.machine.versions.get(n)]
    return ", ".join([*known, f"in {words.duration(result.seconds)}"])


def _line(console: Console, text: Text) -> None:
    console.print(text, soft_wrap=True)
