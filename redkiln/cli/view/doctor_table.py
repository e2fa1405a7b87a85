"""The head of a doctor's report: versions next to needs, and a line for each GPU."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from redkiln.views.hardware import Component, DoctorTrial, GpuReading

GIB = 1024**3
NOTHING = "-"
MARKS: dict[str, tuple[str, str]] = {
    "fits": ("✓", "green"),
    "may work": ("i", "blue"),
    "unknown": ("?", "magenta"),
}
WRONG = ("✗", "bold red")


def print_components(console: Console, components: Sequence[Component]) -> None:
    """Print each part of the software next to the needs of the cards."""
    is_compared = any(component.needed for component in components)
    table = Table(box=None, pad_edge=False, header_style="dim", show_header=is_compared)
    for name in ("", "here", "needed", ""):
        table.add_column(name, overflow="fold")
    for component in components:
        mark, style = MARKS.get(component.verdict, WRONG) if component.needed else ("", "")
        words = "" if component.verdict in ("fits", "unknown") else f" {component.verdict}"
        table.add_row(
            component.name,
            component.found or ("unknown" if component.verdict == "unknown" else "none"),
            component.needed,
            Text(f"{mark}{words}", style=style),
        )
    console.print(table)


def print_gpus(console: Console, gpus: Sequence[GpuReading]) -> None:
    """Print a line for each GPU, and the processes that have it open."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    table.add_column("GPU", overflow="fold", max_width=26)
    for name in ("busy", "memory", "temp", "power", "PCIe", "ReBAR", "ECC"):
        table.add_column(name, no_wrap=True)
    for gpu in gpus:
        table.add_row(
            describe_name(gpu),
            _percent(gpu.busy_ratio),
            _pair(gpu.memory_used_bytes, gpu.memory_bytes, scale=GIB, unit=" GiB", digits=1),
            _number(gpu.celsius, " °C"),
            _pair(gpu.power_watts, gpu.power_cap_watts, scale=1, unit=" W", digits=0),
            describe_link(gpu),
            "APU" if gpu.is_apu else _yes(gpu.has_resizable_bar),
            describe_errors(gpu),
        )
    console.print(table)
    for gpu in gpus:
        for process in gpu.processes:
            used = _number(process.memory_bytes and process.memory_bytes / GIB, " GiB", digits=1)
            words = f"  {process.name} ({process.pid}) has {gpu.name} open: {used}"
            console.print(Text(words, style="dim"))


def print_trials(console: Console, trials: Sequence[DoctorTrial]) -> None:
    """Print a line for each operation that was tried."""
    for trial in trials:
        is_good = trial.verdict in ("passed", "skipped")
        mark, style = MARKS["fits"] if is_good else WRONG
        time = "" if trial.seconds is None else f", {trial.seconds:.2f} s"
        words = "" if trial.verdict == "passed" else f"{trial.verdict}: "
        console.print(
            Text.assemble(
                (f"{mark} ", style), f"{trial.name:<12}", (f"{trial.device:<8}", "dim"),
                (words, style), (f"{trial.detail}{time}", "dim"),
            )
        )  # fmt: skip


def describe_name(gpu: GpuReading) -> str:
    """Return the name of a GPU without its maker's, and its architecture."""
    name = gpu.name.removeprefix("Radeon ").removeprefix("AMD ")
    return name if gpu.gfx in (None, name) else f"{name} {gpu.gfx}"


def describe_link(gpu: GpuReading) -> Text:
    """Return the lanes in use and their rate; yellow if the card could use more lanes."""
    if gpu.link_width is None:
        return Text(NOTHING)
    rate = (gpu.link_speed or "").removesuffix(" PCIe").replace(".0 GT/s", " GT/s")
    is_narrow = gpu.link_max_width is not None and gpu.link_width < gpu.link_max_width
    most = f" of x{gpu.link_max_width}" if is_narrow else ""
    return Text(f"x{gpu.link_width}{most} {rate}".strip(), style="yellow" if is_narrow else "")


def describe_errors(gpu: GpuReading) -> Text:
    """Return whether memory is corrected, and how many errors could not be."""
    if gpu.has_ecc is None:
        return Text(NOTHING)
    if gpu.num_errors:
        return Text(f"{gpu.num_errors} errors", style="bold red")
    return Text("on" if gpu.has_ecc else "off")


def _pair(left: float | None, right: float | None, *, scale: int, unit: str, digits: int) -> str:
    if left is None and right is None:
        return NOTHING
    shown = ["?" if value is None else f"{value / scale:.{digits}f}" for value in (left, right)]
    return (shown[0] if right is None else "/".join(shown)) + unit


def _number(value: float | None, unit: str, *, digits: int = 0) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}{unit}"


def _percent(ratio: float | None) -> str:
    return NOTHING if ratio is None else f"{ratio:.0%}"


def _yes(value: bool | None) -> str:
    return NOTHING if value is None else "on" if value else "off"
