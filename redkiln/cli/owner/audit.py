"""The command that shows who changed what. It needs an admin key."""

import itertools
from typing import Annotated

import typer
from rich.text import Text

from redkiln.cli.command import Session, command
from redkiln.cli.view import words
from redkiln.cli.view.render import Column, print_table
from redkiln.views.access.audit import AuditView


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    command(app, "audit", rich_help_panel="Service", examples=(
        "redkiln audit",
        "redkiln audit --of-key anna --outcome forbidden",
        "redkiln audit --object job_01a",
    ))(audit)  # fmt: skip


def audit(
    session: Session,
    of_key: Annotated[
        str | None,
        typer.Option("--of-key", metavar="KEY", show_default=False,
                     help="Only changes by this key (id or name)."),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option("--project", show_default=False,
                     help="Only changes by keys of this project."),
    ] = None,
    action: Annotated[
        str | None,
        typer.Option("--action", metavar="TEXT", show_default=False,
                     help="Text in the action, such as DELETE or /cancel."),
    ] = None,
    of: Annotated[
        str | None,
        typer.Option("--object", metavar="ID", show_default=False,
                     help="Id or name of what was changed."),
    ] = None,
    outcome: Annotated[
        str | None,
        typer.Option("--outcome", show_default=False,
                     help="Only this outcome: done, forbidden, not_found, conflict or "
                     "unprocessable."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Maximum number of entries to list.")
    ] = 50,
) -> None:  # fmt: skip
    """List who changed what, newest first, with the changes that were refused."""
    found = session.client.audit(
        key=of_key, project=project, action=action, object=of, outcome=outcome
    )
    listed = list(itertools.islice(found, limit))
    if session.is_json:
        session.emit(listed)
    else:
        _print_entries(session, listed)


def _print_entries(session: Session, listed: list[AuditView]) -> None:
    columns = (
        Column("when"), Column("key", when_narrow="cut"), Column("project"),
        Column("action", when_narrow="cut"), Column("object", when_narrow="cut"),
        Column("outcome"), Column("address", when_narrow="drop"),
    )  # fmt: skip
    rows = [
        (
            words.ago(entry.at),
            Text(entry.key_name or entry.key_id, style="bold"),
            entry.project,
            Text(entry.action),
            Text(entry.object),
            Text(entry.outcome, style="" if entry.outcome == "done" else "red"),
            entry.address,
        )
        for entry in listed
    ]
    print_table(session.out, columns, rows)
