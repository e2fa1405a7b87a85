"""Commands on the service's storage: what takes space, and what retention would delete."""

import re
from typing import Annotated

import typer

from redkiln.cli.command import Session, command, default_command, example_text
from redkiln.cli.view import words
from redkiln.cli.view.render import Column, print_table
from redkiln.views.storage import RetentionRule

MOST_SHOWN = 10
"""Jobs that are listed for each rule; `--json` has up to 100."""
_REQUEST = re.compile(r"^DELETE \S+(, or |; )")
"""The request of the API that the service names before the command."""

JobsDays = Annotated[
    float | None,
    typer.Option("--jobs-days", metavar="DAYS", min=0, max=36_500, show_default=False,
                 help="Try this value of REDKILN_KEEP_JOBS_DAYS."),
]  # fmt: skip
FilesDays = Annotated[
    float | None,
    typer.Option("--files-days", metavar="DAYS", min=0, max=36_500, show_default=False,
                 help="Try this value of REDKILN_KEEP_FILES_DAYS."),
]  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    examples = ("redkiln storage retention", "redkiln storage retention --jobs-days 90")
    group = typer.Typer(
        rich_markup_mode="rich",
        help="Show what takes space on the service, and what retention would delete.",
        epilog=example_text(("redkiln storage", *examples)),
    )
    app.add_typer(group, name="storage", rich_help_panel="Service")
    default_command(group)(show_use)
    command(group, "retention", examples=examples)(retention)


def show_use(session: Session) -> None:
    """Show stored bytes by kind, what of it can be deleted, and how."""
    use = session.client.storage()
    if session.is_json:
        session.emit(use)
        return
    columns = (
        Column("kind"), Column("number", is_right=True), Column("size", is_right=True),
        Column("can be freed", is_right=True), Column("how", when_narrow="fold"),
    )  # fmt: skip
    rows = [
        (
            item.kind,
            words.count(item.count),
            words.size(item.bytes),
            words.size(item.freeable_bytes),
            _REQUEST.sub("", item.how),
        )
        for item in use.kinds
    ]
    print_table(session.out, columns, rows)
    session.note(f"{words.size(use.disk.free_bytes)} of the disk are free.")


def retention(session: Session, jobs_days: JobsDays = None, files_days: FilesDays = None) -> None:
    """Show what the rules of retention would delete now. Nothing is deleted."""
    plan = session.client.retention(keep_jobs_days=jobs_days, keep_files_days=files_days)
    if session.is_json:
        session.emit(plan)
        return
    for rule in plan.rules:
        session.say(_sentence(rule))
        for item in rule.oldest[:MOST_SHOWN]:
            ended = words.ago(item.finished_at)
            session.say(f"  {item.name} ({item.id}), ended {ended}, {words.size(item.bytes)}")
        if (rest := rule.count - MOST_SHOWN) > 0:
            session.say(f"  and {words.plural(rest, 'other job')}")


def _sentence(rule: RetentionRule) -> str:
    if rule.days is None:
        return f"{rule.rule}: off; set {rule.setting} on the service"
    what = f"{words.plural(rule.count, 'job')}, {words.size(rule.bytes)}"
    kept = f"; {words.plural(rule.num_kept, 'job')} kept because needed" if rule.num_kept else ""
    return f"{rule.rule}: after {rule.days:g} days ({rule.setting}): {what}{kept}"
