"""The command that lists workers."""

import typer
from rich.text import Text

from redkiln.cli.command import Session, command
from redkiln.cli.view import words
from redkiln.cli.view.render import Column, print_table
from redkiln.views.worker import EngineDevice, GpuView, WorkerView


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    command(app, "workers", rich_help_panel="Service", examples=("redkiln workers --json",))(
        workers
    )


def workers(session: Session) -> None:
    """List the workers: whether they are live, their hardware, their load."""
    listed = session.client.workers()
    if session.is_json:
        session.emit(listed)
        return
    if not listed:
        session.note("No worker has connected yet. Start one: ./up (containers) or make up")
        return
    columns = (
        Column("host", when_narrow="cut"),
        Column("live"),
        Column("last seen"),
        Column("slots", is_right=True),
        Column("busy", is_right=True),
        Column("hardware", when_narrow="fold"),
        Column("doctor", when_narrow="drop"),
        Column("id", when_narrow="drop"),
    )
    print_table(session.out, columns, [_row(item) for item in listed])


def _row(item: WorkerView) -> tuple[Text | str, ...]:
    return (
        Text(item.hostname, style="bold"),
        Text("yes", style="green") if item.is_live else Text("no", style="red"),
        words.ago(item.last_seen_at),
        str(item.slots),
        str(len(item.attempts)),
        _hardware(item),
        _doctor(item),
        Text(item.id, style="dim"),
    )


def _hardware(worker: WorkerView) -> str:
    torch = f", torch {worker.torch_version}" if worker.torch_version else ""
    usable = [device for device in worker.engine_devices or () if device.excluded is None]
    others = map(_engine_device, usable)
    return (", ".join([*map(_gpu, worker.gpus), *others]) or "CPU") + torch


def _gpu(gpu: GpuView) -> str:
    text = f"{gpu.name} ({gpu.arch})" if gpu.arch else gpu.name
    return text if gpu.excluded is None else f"{text}, excluded: {gpu.excluded.code}"


def _engine_device(device: EngineDevice) -> str:
    """Return a device with its engine and the slots that use it."""
    engine = " ".join(filter(None, [device.engine, device.device]))
    slots = ", ".join(f"slot {slot}" for slot in device.slots)
    return f"{device.name} ({', '.join(filter(None, [engine, slots]))})"


def _doctor(worker: WorkerView) -> Text:
    styles = {"ok": "green", "slow": "yellow", "blocked": "red"}
    verdict = worker.doctor_verdict
    return Text(verdict or "-", style=styles.get(verdict or "", "dim"))
