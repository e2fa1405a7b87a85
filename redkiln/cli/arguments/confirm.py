"""The question before something is deleted or cancelled for good."""

import sys
from typing import Annotated

import typer

from redkiln.cli.command import Session
from redkiln.cli.exit_codes import ExitCode

Sure = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def ask_before_deleting(session: Session, named: list[str], *, is_sure: bool) -> None:
    """Ask as `ask_before` does, before something is deleted."""
    ask_before(session, "delete", named, is_sure=is_sure)


def ask_before(session: Session, verb: str, named: list[str], *, is_sure: bool) -> bool:
    """Ask a person at a terminal before a change; scripts and `--json` are not asked.

    Args:
        session: Session of the command.
        verb: The change, `cancel` or `delete`.
        named: Descriptions of the objects that change.
        is_sure: Whether the user has already confirmed with an option.

    Returns:
        Whether somebody was asked, and agreed.

    Raises:
        typer.Exit: The person said no.
    """
    if is_sure or session.is_json or not _is_at_terminal():
        return False
    if not typer.confirm(f"{verb.capitalize()} {', '.join(named)}?", err=True):
        session.note("Nothing was deleted." if verb == "delete" else "Nothing was changed.")
        raise typer.Exit(ExitCode.INTERRUPTED)
    return True


def _is_at_terminal() -> bool:
    return sys.stdin.isatty()
