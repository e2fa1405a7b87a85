"""A doctor's report on the terminal: what was seen, its cause, and how to fix it."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from redkiln.cli.view.doctor_table import print_components, print_gpus, print_trials
from redkiln.views.doctor import DoctorReport
from redkiln.views.hardware import FAILED_TRIALS, DoctorCheck, DoctorTrial, DoctorVerdict

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
ALL_REDUCE = "all-reduce"
"""The check that describes the machine; it is printed as a heading, not as a check."""

_SERIOUSNESS = {"blocks": 0, "slows": 1, "note": 2}
_TITLE_WIDTH = 26


def print_report(
    console: Console, report: DoctorReport, *, name: str | None = None, with_first: bool = True
) -> None:
    """Print the report of one machine.

    Args:
        console: Console to print on.
        report: Report with its checks in the order of the doctor.
        name: Name of the machine, its host name by default.
        with_first: Whether to begin with what to do first.
    """
    if with_first:
        first = report.first or _explain_trials(report)
        print_first(console, first, remembered=report.remembered)
    words, style = VERDICTS[report.verdict]
    _line(console, Text.assemble((name or report.hostname, "bold"), "  ", (words, style)))
    _print_head(console, report)
    if report.trials:
        console.print()
        print_trials(console, report.trials)
    faults = [c for c in report.checks if c.verdict == "bad" and c.follows is None]
    for check in faults:
        console.print()
        folded = [other for other in report.checks if other.follows == check.row]
        _print_fault(console, check, folded)
    rest = [c for c in report.checks if c.verdict != "bad" and c.id != OVERVIEW and not c.follows]
    if rest:
        console.print()
    for check in rest:
        _print_rest(console, check)


def print_first(
    console: Console, check: DoctorCheck | None, *, remembered: str = "", where: str = ""
) -> None:
    """Print what to do first: one command that can be typed as it is, if there is one.

    Args:
        console: Console to print on.
        check: The check to act on; None if nothing is wrong.
        remembered: Cure of the same problem on this machine before.
        where: The machine, if it is not this one.
    """
    if check is None:
        _line(console, Text("Nothing to do.", style="bold green"))
        return
    command = remembered or check.command
    place = "".join((f" on {where}" if where else "", " (on its host)" if check.on_host else ""))
    # A note needs nothing to be done.
    head = Text(f"{'Optional' if check.severity == 'note' else 'First'}{place}: ", style="bold")
    _line(console, head + Text(command or check.fix, style="bold cyan"))
    if remembered:
        _line(console, Text("  It cured the same problem on this machine before.", style="dim"))


def first_of(reports: Iterable[DoctorReport]) -> tuple[DoctorReport, DoctorCheck] | None:
    """Return the most serious of the first checks of several reports, with its report."""
    found = [(report, first) for report in reports if (first := report.first) is not None]
    return min(found, key=lambda pair: _SERIOUSNESS[pair[1].severity], default=None)


def _explain_trials(report: DoctorReport) -> DoctorCheck | None:
    """Return what to do if only a trial failed: a longer test names what is wrong."""
    failed = [trial for trial in report.trials if trial.verdict in FAILED_TRIALS]
    if not failed:
        return None
    return DoctorCheck(
        id="trials",
        row=0,
        title=failed[0].name,
        verdict="bad",
        severity="blocks",
        command=_name_longer_test(failed[0]),
    )


def _name_longer_test(trial: DoctorTrial) -> str:
    if trial.name == ALL_REDUCE:
        num_ranks, _, kind = trial.device.partition(" x ")
        return f"NCCL_DEBUG=INFO python -m worker.hardware.peers {num_ranks} --device-type {kind}"
    return f"python -m worker.hardware.selftest --device {trial.device}"


def kind_of(check: DoctorCheck) -> str:
    """Return the style of a check: its severity if it is bad, else its verdict."""
    return check.severity if check.verdict == "bad" else check.verdict


def _print_head(console: Console, report: DoctorReport) -> None:
    if report.components:
        print_components(console, report.components)
    elif versions := _versions(report):
        _line(console, Text(versions, style="dim"))
    for check in report.checks:
        if check.id == OVERVIEW:
            _line(console, Text(check.evidence))
    if report.gpus:
        print_gpus(console, report.gpus)


def _print_fault(console: Console, check: DoctorCheck, folded: Sequence[DoctorCheck]) -> None:
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
    if folded:
        titles = ", ".join(f"{other.title} (row {other.row})" for other in folded)
        _entry(console, "explains", Text(titles, style="dim"))


def _print_rest(console: Console, check: DoctorCheck) -> None:
    mark, style = STYLES[kind_of(check)]
    head = Text.assemble((f"{mark} ", style), f"{check.title:<{_TITLE_WIDTH}}  ")
    if check.verdict == "ok":
        line = head + Text(check.evidence, style="dim")
        line.truncate(max(console.width, 60), overflow="ellipsis")
        console.print(line, no_wrap=True, overflow="ellipsis", crop=False)
        return
    _print_beside(console, head, Text(check.evidence, style="dim"))
    if check.is_hidden:
        _entry(
            console, "host", Text(f"{check.command}   (a container cannot see it)", style="cyan")
        )
    elif check.fix:
        _entry(console, "see", Text(check.fix, style="cyan"))


def _entry(console: Console, name: str, text: Text) -> None:
    head = Text(f"    {name:<9}", style="dim")
    if name == "fix":
        # A command to copy must not be broken over lines.
        _line(console, Text.assemble(head, text))
    else:
        _print_beside(console, head, text)


def _print_beside(console: Console, head: Text, text: Text) -> None:
    """Print a text to the right of its head; a terminal's further lines begin below its first."""
    if not console.is_terminal:
        _line(console, Text.assemble(head, text))
        return
    grid = Table.grid()
    grid.add_column(no_wrap=True)
    grid.add_row(head, text)
    console.print(grid)


def _severity_words(check: DoctorCheck) -> str:
    return {"blocks": "blocks", "slows": "slows", "note": "note"}[check.severity]


def _versions(report: DoctorReport) -> str:
    versions: Iterable[tuple[str, str | None]] = report.versions.items()
    return ", ".join(f"{name} {version}" for name, version in versions if version)


def _line(console: Console, text: Text) -> None:
    console.print(text, soft_wrap=True)
