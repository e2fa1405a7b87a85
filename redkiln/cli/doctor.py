"""The command that asks the doctor: of the service and its workers, or of this machine."""

import importlib.util
import io
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from redkiln.cli import words
from redkiln.cli.command import Session, command
from redkiln.cli.doctor_page import print_report
from redkiln.doctor import EXIT_STATUSES, Diagnosis, WorkerDoctor
from redkiln.errors import ConnectionFailed
from redkiln.redaction import redact

LOCAL = "worker.hardware"
"""The part of a worker that looks at the machine it runs on; a client alone does not have it."""


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    command(app, "doctor", rich_help_panel="Service", examples=(
        "redkiln doctor                          # exit status: 0 fine, 1 slowed, 2 blocked",
        "redkiln doctor --bundle doctor.tar.gz   # for a bug report, without secrets",
    ))(doctor)  # fmt: skip


def doctor(
    session: Session,
    bundle: Annotated[
        Path | None,
        typer.Option("--bundle", help="Write a .tar.gz for a bug report, without secrets."),
    ] = None,
) -> None:
    """Say what keeps jobs from running, what slows them, and what to type.

    Asks the service, which knows what its workers found. Where none answers and
    this Python has a worker, this machine is looked at instead. The exit status
    is 0 when nothing is in the way, 1 when something slows, 2 when something
    blocks.
    """
    try:
        diagnosis = session.client.doctor()
    except ConnectionFailed as error:
        if importlib.util.find_spec("worker") is None:
            raise
        session.note(f"{error}\nThis machine is looked at instead.\n")
        raise typer.Exit(_run_here(session, bundle)) from None
    if session.is_json:
        session.emit(diagnosis)
    else:
        _print(session, diagnosis)
    if bundle is not None:
        write_bundle(bundle, diagnosis, own_key=session.own_key)
        session.note(f"Wrote {bundle}: look through it before you send it.")
    raise typer.Exit(EXIT_STATUSES[diagnosis.verdict])


def write_bundle(path: Path, diagnosis: Diagnosis, *, own_key: str | None) -> None:
    """Write what the service told into a file for a bug report.

    Raises:
        OSError: it cannot be written.
    """
    text = redact(diagnosis.model_dump_json(indent=2), known=[own_key] if own_key else [])
    content = text.encode()
    entry = tarfile.TarInfo("redkiln-doctor/diagnosis.json")
    entry.size = len(content)
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(entry, io.BytesIO(content))


def _run_here(session: Session, bundle: Path | None) -> int:
    options = ["--json"] if session.is_json else []
    options += ["--bundle", str(bundle)] if bundle else []
    return subprocess.run([sys.executable, "-m", LOCAL, "doctor", *options], check=False).returncode


def _print(session: Session, diagnosis: Diagnosis) -> None:
    print_report(session.out, diagnosis.service, name=f"service {session.client.url}")
    for worker in diagnosis.workers:
        session.out.print()
        _print_worker(session, worker)


def _print_worker(session: Session, worker: WorkerDoctor) -> None:
    name = f"worker {worker.hostname}"
    if worker.report is None:
        line = Text.assemble(
            (name, "bold"), "  its doctor has not looked yet: ask again in a minute"
        )
        session.say(line)
        return
    print_report(session.out, worker.report, name=f"{name}, {words.ago(worker.report.at)}")
