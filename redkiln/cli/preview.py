"""`preview`: what a job's model makes of a few samples, as a picture or a table."""

from pathlib import Path
from typing import Annotated

import typer

from redkiln.cli import words
from redkiln.cli.command import Session, command
from redkiln.cli.jobs import JobName
from redkiln.cli.naming import find_job_id
from redkiln.job import JobView


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "preview", rich_help_panel="Jobs", examples=(
        "redkiln preview last",
        "redkiln preview flowers -o samples.png",
    ))(preview)  # fmt: skip


def preview(
    session: Session,
    job: JobName,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File; NAME-preview.png here if not given.",
                     show_default=False),
    ] = None,
) -> None:  # fmt: skip
    """Show a job's newest sample predictions.

    Images become a file, right and wrong ones marked; texts and tables are
    printed, or written where a file is given.
    """
    found = session.client.job(find_job_id(session.client, job))
    newest = session.client.preview(found.id)
    assert newest is not None, "asked without an etag, there is one or an error"
    is_picture = newest.media_type == "image/png"
    path = output or (Path(f"{_plain(found.name)}-preview.png") if is_picture else None)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(newest.content)
    text = "" if is_picture else newest.content.decode("utf-8", "replace")
    if session.is_json:
        session.emit(
            {
                "job_id": found.id,
                "step": newest.step,
                "media_type": newest.media_type,
                "path": None if path is None else str(path),
                "text": text or None,
            }
        )
    elif path is None:
        session.say(text.rstrip())
    else:
        session.say(f"{preview_words(found, newest.step)}: {path}")


def preview_words(job: JobView, step: int) -> str:
    """What a preview is, in a few words."""
    note = job.progress.preview if job.progress else None
    known = f", {note.num_right} of {note.num} right" if note and note.num_right is not None else ""
    is_same = note is not None and note.step == step
    return f"sample predictions at step {words.count(step)}{known if is_same else ''}"


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in name).strip(".-") or "job"
