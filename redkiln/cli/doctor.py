"""The commands `doctor` and `compat`: what is wrong here, and what fits together."""

import importlib.util
import io
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from redkiln.cli.command import Session, command
from redkiln.cli.problems import UsageError
from redkiln.cli.view import words
from redkiln.cli.view.doctor_page import first_of, print_first, print_report
from redkiln.errors import ConnectionFailed
from redkiln.redaction import redact
from redkiln.views.doctor import EXIT_STATUSES, Diagnosis, WorkerDoctor

LOCAL = "worker.hardware"
"""The worker's module that examines this machine; an installation of the client lacks it."""


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    command(app, "doctor", rich_help_panel="Service", examples=(
        "redkiln doctor                          # exit status: 0 fine, 1 slowed, 2 blocked",
        "redkiln doctor --test                   # also tries this machine's GPU",
        "redkiln doctor --fix                    # does what is safe, after asking",
        "redkiln doctor --bundle doctor.tar.gz   # for a bug report, without secrets",
    ))(doctor)  # fmt: skip
    command(app, "compat", rich_help_panel="Service", examples=(
        "redkiln compat                          # this machine's GPUs: exit status 0 if all fits",
        "redkiln compat --gfx gfx1100            # everything known of this target",
        "redkiln compat --picture graph.svg",
    ))(compat)  # fmt: skip


def doctor(
    session: Session,
    bundle: Annotated[
        Path | None,
        typer.Option("--bundle", help="Also write a .tar.gz for a bug report, without secrets."),
    ] = None,
    is_test: Annotated[
        bool,
        typer.Option("--test", help="Examine this machine, and try a copy, a product, a "
                     "convolution, attention and an all-reduce on it."),
    ] = False,
    is_fix: Annotated[
        bool,
        typer.Option("--fix", help="Examine this machine, and carry out what is safe, after "
                     "asking for each."),
    ] = False,
    is_agreed: Annotated[bool, typer.Option("--yes", help="With --fix: do not ask.")] = False,
) -> None:  # fmt: skip
    """Show what keeps jobs from running or slows them, and how to fix it.

    Asks the service for its own report and those of its workers. If the service
    cannot be reached and this Python has the worker, this machine is examined
    instead. The exit status is 0 if everything is fine, 1 if something slows
    jobs, 2 if something blocks them.
    """
    extra = [name for name, is_set in (("--test", is_test), ("--fix", is_fix), ("--yes", is_agreed))
             if is_set]  # fmt: skip
    if extra:
        _require_worker("doctor", extra)
        raise typer.Exit(_run_here(session, bundle, extra))
    try:
        diagnosis = session.client.doctor()
    except ConnectionFailed as error:
        if importlib.util.find_spec("worker") is None:
            raise
        session.note(f"{error}\nExamining this machine instead.\n")
        raise typer.Exit(_run_here(session, bundle)) from None
    if session.is_json:
        session.emit(diagnosis)
    else:
        _print(session, diagnosis)
    if bundle is not None:
        write_bundle(bundle, diagnosis, own_key=session.own_key)
        session.note(f"Wrote {bundle}. Read it before you send it.")
    raise typer.Exit(EXIT_STATUSES[diagnosis.verdict])


def compat(
    session: Session,
    gfx: Annotated[
        str | None,
        typer.Option("--gfx", help="A target (gfx1100) instead of this machine's GPUs."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Also draw the graph: a .svg or .png file.")
    ] = None,
) -> None:
    """Show which kernel, driver, ROCm, torch and Python fit a GPU.

    Compares this machine with a graph whose edges name their sources, and
    prints the smallest change after which everything fits. The exit status is
    0 if everything fits, 1 if something has to change, 2 if nothing helps.
    """
    _require_worker("compat", [])
    options = ["--json"] if session.is_json else []
    options += ["--gfx", gfx] if gfx else []
    options += ["--picture", str(picture.absolute())] if picture else []
    raise typer.Exit(_run_module("compat", options))


def write_bundle(path: Path, diagnosis: Diagnosis, *, own_key: str | None) -> None:
    """Write the service's diagnosis into an archive for a bug report.

    Raises:
        OSError: The archive cannot be written.
    """
    text = redact(diagnosis.model_dump_json(indent=2), known=[own_key] if own_key else [])
    content = text.encode()
    entry = tarfile.TarInfo("redkiln-doctor/diagnosis.json")
    entry.size = len(content)
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(entry, io.BytesIO(content))


def _require_worker(name: str, options: list[str]) -> None:
    if importlib.util.find_spec("worker") is None:
        words = " ".join([name, *options])
        raise UsageError(
            "This installation has only the client, not the worker, which does this. In a "
            f"container: docker compose exec worker python -m worker.hardware {words}"
        )


def _run_here(session: Session, bundle: Path | None, extra: list[str] | None = None) -> int:
    options = ["--json"] if session.is_json else []
    options += extra or []
    options += ["--bundle", str(bundle)] if bundle else []
    return _run_module("doctor", options)


def _run_module(name: str, options: list[str]) -> int:
    return subprocess.run([sys.executable, "-m", LOCAL, name, *options], check=False).returncode


def _print(session: Session, diagnosis: Diagnosis) -> None:
    reports = [diagnosis.service, *(w.report for w in diagnosis.workers if w.report is not None)]
    first = first_of(reports)
    print_first(
        session.out,
        first[1] if first else None,
        remembered=first[0].remembered if first else "",
        where=first[0].hostname if first else "",
    )
    print_report(
        session.out, diagnosis.service, name=f"service {session.client.url}", with_first=False
    )
    for worker in diagnosis.workers:
        session.out.print()
        _print_worker(session, worker)


def _print_worker(session: Session, worker: WorkerDoctor) -> None:
    name = f"worker {worker.hostname}"
    if worker.report is None:
        line = Text.assemble((name, "bold"), "  no report yet: try again in a minute")
        session.say(line)
        return
    title = f"{name}, {words.ago(worker.report.at)}"
    print_report(session.out, worker.report, name=title, with_first=False)
