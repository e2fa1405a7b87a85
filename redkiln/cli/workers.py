"""The command that lists workers."""

import typer
from rich.text import Text

from redkiln.cli import words
from redkiln.cli.command import Session, command
from redkiln.cli.tables import Column, print_table
from redkiln.job import WorkerView


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    command(app, "workers", rich_help_panel="Service", examples=("redkiln workers --json",))(
        workers
    )


def workers(session: Session) -> None:
    """List the workers: whether they live, what they have, what they do."""
    listed = session.client.workers()
    if session.is_json:
        session.emit(listed)
        return
    if not listed:
        session.note("No worker has ever said hello. Start one: ./up (containers), or make up")
        return
    columns = (
        Column("host", when_narrow="cut"),
        Column("live"),
        Column("heard of"),
        Column("slots", is_right=True),
        Column("busy", is_right=True),
        Column("hardware", when_narrow="fold"),
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
        Text(item.id, style="dim"),
    )


def _hardware(worker: WorkerView) -> str:
    torch = f", torch {worker.torch_version}" if worker.torch_version else ""
    gpus = ", ".join(f"{gpu.name} ({gpu.arch})" if gpu.arch else gpu.name for gpu in worker.gpus)
    return (gpus or "CPU") + torch
