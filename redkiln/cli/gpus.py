"""The command that lists GPUs: what they are, their load, and who uses them."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import Annotated

import typer
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.text import Text

from redkiln.cli.command import Session, command, print_json
from redkiln.cli.problems import UsageError
from redkiln.cli.view import words
from redkiln.cli.view.panel import plain_words
from redkiln.cli.view.render import Column, build_table
from redkiln.views.hardware import GpuTelemetry, WorkerGpu

REFRESH_SECONDS = 2.0
FREE_LOOK_SECONDS = 0.5
GpuName = Annotated[
    str | None,
    typer.Argument(
        metavar="[GPU]", help="Id or PCI address; not needed for the only GPU.", show_default=False
    ),
]
HOT_CELSIUS = 95.0
"""Temperature from which it is shown in red; about here cards begin to throttle."""

_COLUMNS = (
    Column("gpu", when_narrow="cut"),
    Column("arch", when_narrow="drop"),
    Column("busy", is_right=True),
    Column("memory", is_right=True),
    Column("power", is_right=True),
    Column("temp", is_right=True),
    Column("clock", is_right=True, when_narrow="drop"),
    Column("use", when_narrow="cut"),
    Column("host", when_narrow="drop"),
    Column("address", when_narrow="drop"),
)


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    command(app, "gpus", rich_help_panel="Service", examples=(
        "redkiln gpus",
        "redkiln gpus --watch                         # until Ctrl-C",
        "redkiln gpus --arch gfx1100 --json",
    ))(gpus)  # fmt: skip
    command(app, "free", rich_help_panel="Service", examples=(
        "redkiln free                     # the only GPU: pauses its job, waits until it is free",
        "redkiln free 0000:03:00.0",
    ))(free)  # fmt: skip
    command(app, "give-back", rich_help_panel="Service", examples=(
        "redkiln give-back                # jobs may use it again; the paused one resumes",
    ))(give_back)  # fmt: skip


def gpus(
    session: Session,
    is_watched: Annotated[
        bool,
        typer.Option(
            "--watch", "-w", help="Refresh until Ctrl-C; with --json, one line per refresh."
        ),
    ] = False,
    worker: Annotated[
        str | None, typer.Option("--worker", help="Only the GPUs of the worker with this id.")
    ] = None,
    arch: Annotated[
        str | None, typer.Option("--arch", help="Only GPUs of this architecture, e.g. gfx1100.")
    ] = None,
) -> None:
    """List the GPUs of all live workers: their load, their job, or why they are excluded."""

    def look() -> list[WorkerGpu]:
        return session.client.gpus(worker=worker, arch=arch)

    if is_watched:
        with suppress(KeyboardInterrupt):
            _watch(session, look)
    elif session.is_json:
        session.emit(look())
    else:
        session.out.print(GpuTable(look()))


def free(session: Session, gpu: GpuName = None) -> None:
    """Keep a GPU free for yourself: pause its job, and give it no other one.

    Ends once the GPU is free. It stays free until `redkiln give-back`.
    """
    gpu_id = _find_gpu_id(session, gpu)
    freed = session.client.free_gpu(gpu_id)
    if freed.hold is not None and freed.hold.status == "freeing" and not session.is_json:
        session.note(f"{gpu_id} will be free in about {freed.hold.expected_seconds:.0f} s ...")
    while freed.hold is not None and freed.hold.status == "freeing":
        time.sleep(FREE_LOOK_SECONDS)
        freed = session.client.free_gpu(gpu_id)
    if session.is_json:
        session.emit(freed)
        return
    session.say(f"{gpu_id} is free")
    session.note(Text("Give it back to the jobs: redkiln give-back", style="dim"))


def give_back(session: Session, gpu: GpuName = None) -> None:
    """Give a freed GPU back to the jobs; the job that was paused for it resumes."""
    gpu_id = _find_gpu_id(session, gpu)
    returned = session.client.give_gpu_back(gpu_id)
    if session.is_json:
        session.emit(returned)
    else:
        session.say(f"{gpu_id} may get jobs again")


def _find_gpu_id(session: Session, named: str | None) -> str:
    """Return the id of the GPU that the user named, or of the only one.

    Raises:
        UsageError: No GPU or several GPUs match.
    """
    known = session.client.gpus()
    found = [gpu.id for gpu in known if named is None or named in (gpu.id, gpu.key)]
    if len(found) == 1:
        return found[0]
    if not known:
        raise UsageError("No live worker has a GPU. List the workers: redkiln workers")
    listed = ", ".join(found or [gpu.id for gpu in known])
    problem = "Several GPUs match" if found else f"There is no GPU {named!r}"
    raise UsageError(f"{problem}. Name one of: {listed}")


def _watch(session: Session, look: Callable[[], list[WorkerGpu]]) -> None:
    is_lively = session.out.is_terminal and not session.is_json
    with Live(console=session.live, auto_refresh=False) if is_lively else nullcontext() as live:
        while True:
            if live is not None:
                live.update(GpuTable(look()), refresh=True)
            elif session.is_json:
                print_json(look())
            else:
                session.out.print(GpuTable(look()))
            time.sleep(REFRESH_SECONDS)


class GpuTable:
    """GPUs as a table, followed by the reasons why some are excluded."""

    def __init__(self, listed: Sequence[WorkerGpu]) -> None:
        self._listed = listed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield what rich draws."""
        if not self._listed:
            yield Text("No live worker has a GPU. List the workers: redkiln workers")
            return
        rows = [_row(gpu, is_plain=options.ascii_only) for gpu in self._listed]
        table = build_table(_COLUMNS, rows, room=options.max_width)
        reasons = [_reason(gpu) for gpu in self._listed if gpu.excluded]
        parts: list[RenderableType] = [table, *reasons]
        yield Group(*parts)


def _row(gpu: WorkerGpu, *, is_plain: bool) -> tuple[Text | str, ...]:
    telemetry = gpu.telemetry or GpuTelemetry()
    return (
        Text(gpu.facts.name or gpu.facts.gfx or gpu.key, style="bold"),
        _arch(gpu),
        _format_reading("busy_ratio", telemetry.busy_ratio),
        _memory(gpu, telemetry),
        _format_reading("power_watts", telemetry.power_watts),
        _temperature(telemetry, is_plain=is_plain),
        _format_reading("core_clock_hz", telemetry.core_clock_hz),
        _use(gpu),
        Text(gpu.hostname, style="dim"),
        Text(gpu.key, style="dim"),
    )


def _arch(gpu: WorkerGpu) -> str:
    arch = gpu.facts.gfx or "-"
    return f"{arch}?" if gpu.facts.is_gfx_inferred else arch


def _format_reading(sensor: str, value: float | None) -> str:
    return "-" if value is None else words.reading(sensor, value)


def _memory(gpu: WorkerGpu, telemetry: GpuTelemetry) -> str:
    """Used and total memory; an APU uses the host's memory."""
    used = telemetry.gtt_used_bytes if gpu.facts.is_apu else telemetry.vram_used_bytes
    total = gpu.facts.vram_bytes
    if total is None:
        return _format_reading("bytes", used)
    whole = ("~" if gpu.facts.is_memory_approximate else "") + words.memory(total)
    return whole if used is None else f"{used / 2**30:.1f}/{whole}"


def _temperature(telemetry: GpuTelemetry, *, is_plain: bool) -> Text | str:
    """The highest of the card's temperatures."""
    known = (telemetry.junction_celsius, telemetry.edge_celsius, telemetry.memory_celsius)
    hottest = max((value for value in known if value is not None), default=None)
    if hottest is None:
        return "-"
    text = plain_words(words.reading("celsius", hottest), is_plain=is_plain)
    return Text(text, style="bold red" if hottest >= HOT_CELSIUS else "")


def _use(gpu: WorkerGpu) -> Text:
    if gpu.job_id is not None:
        return Text(gpu.job_id, style="cyan")
    if gpu.excluded is not None:
        return Text("excluded", style="yellow")
    return Text("free", style="green")


def _reason(gpu: WorkerGpu) -> Text:
    assert gpu.excluded is not None
    return Text.assemble(
        (f"{gpu.key} of {gpu.hostname}: ", "yellow"), (gpu.excluded.message, "dim")
    )
