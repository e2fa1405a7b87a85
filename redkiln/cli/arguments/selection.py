"""`--all` with filters, instead of names of jobs: which jobs a command changes."""

from collections.abc import Callable
from typing import Annotated

import typer

from redkiln.cli.arguments.confirm import ask_before
from redkiln.cli.command import Session
from redkiln.cli.view import words
from redkiln.client.selection import Selection
from redkiln.errors import Conflict, NotFound
from redkiln.status import JobStatus
from redkiln.views.bulk import BulkChange, BulkRefusal

MOST_NAMED = 10
"""Jobs that a question names before it only counts the rest."""

IsAll = Annotated[
    bool, typer.Option("--all", help="All jobs that the filters select, instead of JOB.")
]
Statuses = Annotated[
    list[JobStatus] | None,
    typer.Option("--status", "-s", help="With --all: only jobs in this status. Repeatable."),
]
Task = Annotated[str | None, typer.Option("--task", help="With --all: only jobs of this task.")]
Entries = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata", "-m", metavar="KEY=VALUE", help="With --all: only jobs with this value. "
        "Repeatable.",
    ),
]  # fmt: skip
Search = Annotated[
    str | None,
    typer.Option("--search", metavar="WORDS", show_default=False,
                 help="With --all: only jobs with these words in name, id, data set, model or "
                 "task."),
]  # fmt: skip
IsDry = Annotated[
    bool, typer.Option("--dry-run", help="With --all: list what would be changed, and stop.")
]


def select_jobs(
    *,
    named: list[str] | None,
    is_all: bool,
    is_dry: bool,
    statuses: list[JobStatus] | None,
    task: str | None,
    entries: list[str] | None,
    search: str | None,
) -> Selection | None:
    """Return the filters of a command with `--all`; None if it names its jobs.

    Raises:
        BadParameter: Neither or both are given, or `--all` has no filter.
    """
    chosen: Selection = {
        "status": [str(status) for status in statuses or ()] or None,
        "task": task,
        "search": search,
        "metadata": dict(read_entry(entry) for entry in entries or ()) or None,
    }
    has_filter = any(chosen.values())
    if is_all and named:
        raise typer.BadParameter("name jobs, or give --all; not both", param_hint="--all")
    if is_all and not has_filter:
        filters = "--status, --task, --metadata or --search"
        message = f"--all without a filter would be every job; add {filters}"
        raise typer.BadParameter(message, param_hint="--all")
    if not is_all and (has_filter or is_dry):
        raise typer.BadParameter("filters and --dry-run need --all", param_hint="--all")
    if not is_all and not named:
        message = "name a job, or select several with --all and a filter"
        raise typer.BadParameter(message, param_hint="JOB")
    return chosen if is_all else None


def read_entry(text: str) -> tuple[str, str]:
    """Return the key and the value of `--metadata KEY=VALUE`.

    Raises:
        BadParameter: The text has no `=`.
    """
    key, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not key=value", param_hint="--metadata")
    return key, value


def change_selected(
    session: Session,
    verb: str,
    change: Callable[[bool], BulkChange],
    *,
    is_sure: bool,
    is_dry: bool,
) -> None:
    """Change the selected jobs, after a person at a terminal has agreed, and print the result.

    Args:
        session: Session of the command.
        verb: The change, `cancel` or `delete`.
        change: Does it, or only lists the jobs if its argument is true.
        is_sure: Whether the user has already confirmed with an option.
        is_dry: Whether to stop before anything is changed.
    """
    changed = change(True)
    if not is_dry and changed.done:
        named = [f"{job.name} ({job.id})" for job in changed.done[:MOST_NAMED]]
        if (rest := len(changed.done) - len(named)) > 0:
            named.append(f"{rest} more")
        was_asked = ask_before(session, verb, named, is_sure=is_sure)
        changed = _change_each(session, verb, changed) if was_asked else change(False)
    if session.is_json:
        session.emit(changed)
        return
    for job in changed.done:
        state = f"is {job.status}" if is_dry or verb == "cancel" else "is deleted"
        session.say(f"{job.name} ({job.id}) {state}")
    for refused in changed.refused:
        session.note(f"{refused.name} ({refused.id}) was not changed: {refused.message}")
    done = words.plural(len(changed.done), "job")
    session.note(f"{verb}: {done}{', nothing changed yet' if is_dry else ''}")


def _change_each(session: Session, verb: str, shown: BulkChange) -> BulkChange:
    """Change just the jobs that a person has agreed to: by now, the filters may select others."""
    changed = BulkChange(dry_run=False, refused=list(shown.refused))
    for job in shown.done:
        try:
            if verb == "delete":
                session.client.delete(job.id)
                changed.done.append(job)
            else:
                status = session.client.cancel(job.id).status
                changed.done.append(job.model_copy(update={"status": status}))
        except (Conflict, NotFound) as error:
            refusal = BulkRefusal(
                id=job.id, name=job.name, code=error.code or "conflict", message=error.detail
            )
            changed.refused.append(refusal)
    return changed
