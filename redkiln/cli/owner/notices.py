"""Commands on messages about ended jobs: list, test. They need an admin key."""

import typer
from rich.text import Text

from redkiln.cli.command import Session, command, default_command, example_text
from redkiln.cli.exit_codes import ExitCode
from redkiln.cli.view import words
from redkiln.cli.view.render import Column, print_table

_STYLES = {"sent": "green", "failed": "red", "pending": "yellow"}


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    group = typer.Typer(
        rich_markup_mode="rich",
        help="Show messages about ended jobs and their delivery (needs an admin key).",
        epilog=example_text(("redkiln notices", "redkiln notices test")),
    )
    app.add_typer(group, name="notices", rich_help_panel="Service")
    default_command(group)(list_notices)
    command(group, "test", examples=("redkiln notices test",))(send_test)


def list_notices(session: Session) -> None:
    """List the newest messages and their delivery."""
    listed = session.client.notices()
    if session.is_json:
        session.emit(listed)
        return
    columns = (
        Column("job"), Column("event"), Column("target", when_narrow="cut"), Column("status"),
        Column("tries"), Column("created"), Column("error", when_narrow="cut"),
    )  # fmt: skip
    rows = [
        (
            item.job_id,
            item.event,
            Text(item.target),
            Text(item.status, style=_STYLES[item.status]),
            str(item.num_tries),
            words.ago(item.created_at),
            Text(item.error or ""),
        )
        for item in listed
    ]
    print_table(session.out, columns, rows)


def send_test(session: Session) -> None:
    """Send a test message to every target that the service has."""
    results = session.client.test_notices()
    if session.is_json:
        session.emit(results)
    for result in results if not session.is_json else ():
        session.say(f"{result.target}: {'sent' if result.is_sent else result.error}")
    if not results:
        session.note("The service has no targets. Set REDKILN_NOTICE_URLS; see docs/notices.md.")
    if not all(result.is_sent for result in results):
        raise typer.Exit(ExitCode.UNREACHABLE)
