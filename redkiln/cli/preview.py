"""`preview`: a model's predictions for a few samples, as a picture or a table."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown

from redkiln.cli.arguments.naming import find_job_id
from redkiln.cli.command import Session, command
from redkiln.cli.jobs import JobName
from redkiln.cli.view import words
from redkiln.views.job import JobView


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
        typer.Option("-o", "--output", help="File (default ./JOB_NAME-preview.png for images).",
                     show_default=False),
    ] = None,
) -> None:  # fmt: skip
    """Show a job's newest sample predictions.

    Images are saved as a picture with right and wrong predictions marked; texts
    and tables are printed, or saved if you give a file.
    """
    found = session.client.job(find_job_id(session.client, job))
    newest = session.client.preview(found.id)
    assert newest is not None, "without an etag the answer is a preview or an error"
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
        _print_text(session, text)
    else:
        session.say(f"{preview_words(found, newest.step)}: {path}")


def _print_text(session: Session, text: str) -> None:
    """Print a Markdown table: drawn in a terminal, as it is elsewhere."""
    if session.out.is_terminal:
        session.out.print(Markdown(text))
    else:
        session.say(text.rstrip())


def preview_words(job: JobView, step: int) -> str:
    """Describe a preview in a few words."""
    note = job.progress.preview if job.progress else None
    known = f", {note.num_right} of {note.num} right" if note and note.num_right is not None else ""
    is_same = note is not None and note.step == step
    return f"sample predictions at step {words.count(step)}{known if is_same else ''}"


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in name).strip(".-") or "job"
