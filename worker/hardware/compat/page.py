"""The pages of `compat`: a machine and the needs of its card, or everything known of a card."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from worker.hardware.compat.graph import Graph
from worker.hardware.compat.judge import Compatibility, Judged
from worker.hardware.facts.targets import Target

STYLES = {
    "fits": ("✓", "green"),
    "may work": ("i", "blue"),
    "unknown": ("?", "magenta"),
    "too old": ("✗", "bold red"),
    "broken": ("✗", "bold red"),
    "not built": ("✗", "bold red"),
    "missing": ("✗", "bold red"),
}

LEVELS = {"needs": "needed", "listed": "listed", "broken": "known to fail", "unknown": "unknown"}


def print_machine(console: Console, found: Compatibility, *, title: str) -> None:
    """Print a machine with the needs of one of its cards, and the smallest change."""
    _line(console, _headline(found, title))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("", "part", "here", "needed", ""):
        table.add_column(name, overflow="fold")
    for part in found.parts:
        mark, style = STYLES[part.verdict]
        table.add_row(
            Text(mark, style=style),
            part.part,
            part.found or "none",
            part.least,
            Text("" if part.verdict == "fits" else part.verdict, style=style),
        )
    console.print(table)
    _print_changes(console, found)
    _print_sources(console, found.parts)


def print_card(console: Console, target: Target, graph: Graph) -> None:
    """Print everything that the graph knows of a card."""
    _line(console, Text.assemble((target.gfx, "bold"), f"  {target.cards}"))
    for edge in graph.edges_of(target.gfx):
        what = (
            f"{edge.least} or newer" if edge.least else f"not {', '.join(edge.values) or 'known'}"
        )
        words = f"  {LEVELS[edge.level]}: {edge.why}"
        console.print(Text.assemble((edge.part, "dim"), "  ", (what, "bold"), words))
        console.print(Text(f"  {edge.source} ({edge.date})", style="dim"))
    releases = graph.releases_for(target)
    if target.blocking is not None or not releases:
        _line(console, Text(_describe_lack(target), style="bold red"))
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("ROCm", "torch", "Python", "amdgpu", "wheels"):
        table.add_column(name, overflow="fold")
    for release in releases:
        table.add_row(
            release.rocm,
            " ".join(release.torch),
            " ".join(release.python),
            release.driver_name or "any",
            "AMD" if release.wheels == "therock" else "pytorch.org",
        )
    console.print(table)
    for release in releases:
        _line(console, Text(f"ROCm {release.rocm}: {release.index}", style="cyan"))
        for image in release.images:
            _line(console, Text(f"  {image}", style="cyan"))
        console.print(Text(f"  {release.source} ({release.date})", style="dim"))
    _line(console, Text(f"graph of {graph.version}", style="dim"))


def _describe_lack(target: Target) -> str:
    if target.blocking is not None:
        return target.blocking.text
    lack, other = "No build has its kernels.", target.override.needs
    if other is None:
        return lack
    return (
        f"{lack} Those of {other} may work with HSA_OVERRIDE_GFX_VERSION={target.override.value}, "
        f"which jobs set if its probe passes; see compat --gfx {other}."
    )


def _headline(found: Compatibility, title: str) -> Text:
    if found.reason:
        return Text.assemble((title, "bold"), "  ", (f"not supported: {found.reason}", "bold red"))
    if found.changes:
        count = len(found.changes)
        words = f"{count} change{'s' * (count > 1)} needed"
        return Text.assemble((title, "bold"), "  ", (words, "bold yellow"))
    return Text.assemble((title, "bold"), "  ", ("everything fits", "bold green"))


def _print_changes(console: Console, found: Compatibility) -> None:
    for number, change in enumerate(found.changes, start=1):
        where = "smallest change" if len(found.changes) == 1 else f"change {number}"
        _line(console, Text.assemble(f"{where}: {change.part} to ", (change.to, "bold")))
        if change.command:
            _line(console, Text(f"    {change.command}", style="bold cyan"))
        else:
            _line(console, Text("    docs/host.md has the commands for your system", style="cyan"))


def _print_sources(console: Console, parts: Sequence[Judged]) -> None:
    for part in parts:
        if part.verdict != "fits" and part.why:
            console.print(Text(f"{part.part}: {part.why}. {part.source}", style="dim"))


def _line(console: Console, text: Text) -> None:
    """Print a line that may be copied; it is not broken."""
    console.print(text, soft_wrap=True)
