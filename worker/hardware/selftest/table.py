"""The report of a self-test for people: one line for each area, type and library."""

from collections.abc import Iterable
from itertools import groupby
from typing import get_args

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from redkiln.views.hardware import Precision
from redkiln.views.self_test import SelfTestArea, SelfTestReport, SelfTestResult
from worker.hardware.health.selftest_words import describe_result, share_of_allowed

PRECISIONS, AREAS = get_args(Precision), get_args(SelfTestArea)
STYLES = {"passed": "green", "failed": "bold red", "error": "bold red"}


def render_report(report: SelfTestReport) -> RenderableType:
    """Render the report for the terminal: each group's worst result, the faults, the verdict."""
    table = Table(
        title=_title(report), title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False
    )
    table.add_column("type", no_wrap=True)
    table.add_column("test", no_wrap=True)
    for name in ("error", "allowed", "zeros", "time", "verdict"):
        table.add_column(name, justify="right", no_wrap=True)
    ordered = sorted(report.results, key=_group)
    for _, group in groupby(ordered, key=_group):
        table.add_row(*_row(list(group)))
    wrong = [Text(f"  {describe_result(result)}", style="red") for result in report.bad]
    return Group(*([table] if ordered else [Text(_title(report))]), *wrong, _verdict(report))


def _group(result: SelfTestResult) -> tuple[int, int, str]:
    order = PRECISIONS.index(result.precision), AREAS.index(result.area)
    return *order, result.library or ""


def _row(results: list[SelfTestResult]) -> Iterable[RenderableType]:
    worst = max(results, key=share_of_allowed)
    library = f" ({worst.library})" if worst.library else ""
    return (
        worst.precision,
        worst.area.replace("_", " ") + library,
        "-" if worst.max_rel_error is None else f"{worst.max_rel_error:.1e}",
        f"{worst.tolerance:.1e}",
        f"{worst.zeros_ratio:.0%}",
        f"{1000 * sum(r.seconds for r in results):.0f} ms",
        Text(worst.verdict, style=STYLES[worst.verdict]),
    )


def _title(report: SelfTestReport) -> str:
    gfx = f" ({report.gfx})" if report.gfx else ""
    name = f": {report.name}{gfx}" if report.name and report.name != report.device.upper() else ""
    versions = ", ".join(f"{name} {value}" for name, value in report.versions.items() if value)
    return f"{report.device}{name}; {versions}"


def _verdict(report: SelfTestReport) -> Text:
    if report.status == "error":
        return Text(f"could not run: {report.cause}", style=STYLES["error"])
    num = len(report.results)
    text = f"{num - len(report.bad)} of {num} passed in {report.seconds:.1f} s"
    if report.device == "cpu":
        text += "; no GPU was tested: this compares the CPU with its own float64"
    return Text(text, style=STYLES[report.status])
