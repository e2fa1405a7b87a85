"""A doctor's report on the terminal: what was seen, its cause, and how to fix it."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from redkiln.views.hardware import DoctorCheck, DoctorReport, DoctorVerdict

STYLES: dict[str, tuple[str, str]] = {
    "blocks": ("✗", "bold red"),
    "slows": ("!", "bold yellow"),
    "note": ("i", "bold blue"),
    "unknown": ("?", "magenta"),
    "ok": ("✓", "green"),
}
VERDICTS: dict[DoctorVerdict, tuple[str, str]] = {
    "blocked": ("something blocks jobs", "bold red"),
    "slow": ("works, but something slows it", "bold yellow"),
    "ok": ("no problems found", "bold green"),
}
OVERVIEW = "gpus"
"""The check that describes the machine; it is printed as a heading, not as a check."""

_TITLE_WIDTH = 26


def print_report(console: Console, report: DoctorReport, *, name: str | None = None) -> None:
    """Print the report of one machine.

    Args:
        console: Console to print on.
        report: Report with its checks in the order of the doctor.
        name: Name of the machine, its host name by default.
    """
    words, style = VERDICTS[report.verdict]
    _line(console, Text.assemble((name or report.hostname, "bold"), "  ", (words, style)))
    if versions := _versions(report):
        _line(console, Text(versions, style="dim"))
    for check in report.checks:
        if check.id == OVERVIEW:
            _line(console, Text(check.evidence))
    faults = [check for check in report.checks if check.verdict == "bad"]
    for check in faults:
        console.print()
        _print_fault(console, check)
    rest = [check for check in report.checks if check.verdict != "bad" and check.id != OVERVIEW]
    if rest:
        console.print()
    for check in rest:
        _print_rest(console, check)


def kind_of(check: DoctorCheck) -> str:
    """Return the style of a check: its severity if it is bad, else its verdict."""
    return check.severity if check.verdict == "bad" else check.verdict


def _print_fault(console: Console, check: DoctorCheck) -> None:
    mark, style = STYLES[kind_of(check)]
    row = f"  row {check.row}" if check.row else ""
    _line(
        console,
        Text.assemble(
            (f"{mark} {check.title}", style), (f"  {_severity_words(check)}{row}", "dim")
        ),
    )
    for name, text, text_style in (
        ("seen", check.evidence, ""),
        ("cause", check.cause, ""),
        ("fix", check.fix, "bold cyan"),
    ):
        if text:
            _entry(console, name, Text(text, style=text_style))


def _print_rest(console: Console, check: DoctorCheck) -> None:
    mark, style = STYLES[kind_of(check)]
    head = Text.assemble((f"{mark} ", style), f"{check.title:<{_TITLE_WIDTH}}  ")
    if check.verdict == "ok":
        line = head + Text(check.evidence, style="dim")
        line.truncate(max(console.width, 60), overflow="ellipsis")
        console.print(line, no_wrap=True, overflow="ellipsis", crop=False)
        return
    _line(console, head + Text(check.evidence, style="dim"))
    if check.fix:
        _entry(console, "see", Text(check.fix, style="cyan"))


def _entry(console: Console, name: str, text: Text) -> None:
    head = Text(f"    {name:<7}", style="dim")
    if console.is_terminal and name != "fix":
        grid = Table.grid()
        grid.add_row(head, text)
        console.print(grid)
    else:
        # A command to copy must not be broken over lines.
        _line(console, Text.assemble(head, text))


def _severity_words(check: DoctorCheck) -> str:
    return {"blocks": "blocks", "slows": "slows", "note": "note"}[check.severity]


def _versions(report: DoctorReport) -> str:
    versions: Iterable[tuple[str, str | None]] = report.versions.items()
    return ", ".join(f"{name} {version}" for name, version in versions if version)


def _line(console: Console, text: Text) -> None:
    console.print(text, soft_wrap=True)
