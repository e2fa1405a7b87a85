"""The question before something is deleted for good."""

import sys
from typing import Annotated

import typer

from redkiln.cli.command import Session
from redkiln.cli.exit_codes import ExitCode

Sure = Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")]


def ask_before_deleting(session: Session, named: list[str], *, is_sure: bool) -> None:
    """Ask a person at a terminal before deleting; scripts and `--json` are not asked.

    Args:
        session: Session of the command.
        named: Descriptions of the objects to delete.
        is_sure: Whether the user has already confirmed with an option.

    Raises:
        typer.Exit: The person said no.
    """
    if is_sure or session.is_json or not _is_at_terminal():
        return
    if not typer.confirm(f"Delete {', '.join(named)}?", err=True):
        session.note("Nothing was deleted.")
        raise typer.Exit(ExitCode.INTERRUPTED)


def _is_at_terminal() -> bool:
    return sys.stdin.isatty()
