"""Commands that steer jobs: cancel, pause, resume, finish, retry, place, checkpoints."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer
from rich.text import Text

from redkiln.cli.arguments.completion import complete_job
from redkiln.cli.arguments.confirm import Sure
from redkiln.cli.arguments.naming import find_job_id
from redkiln.cli.arguments.selection import (
    Entries,
    IsAll,
    IsDry,
    Search,
    Statuses,
    Task,
    change_selected,
    select_jobs,
)
from redkiln.cli.command import Session, command
from redkiln.cli.jobs import AnyJobNames, JobName, JobNames
from redkiln.cli.view import words
from redkiln.cli.view.render import Column, print_table
from redkiln.client.selection import Selection
from redkiln.spec.job_spec import Engine
from redkiln.status import JobStatus
from redkiln.tasks import trains_model
from redkiln.views.bulk import BulkChange
from redkiln.views.job import JobView

PLACES = ("newest", "best", "start")


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    command(
        app,
        "cancel",
        rich_help_panel="Jobs",
        examples=(
            "redkiln cancel last",
            "redkiln cancel job_01a job_01b",
            "redkiln cancel --all --status queued --metadata sweep=3",
        ),
    )(cancel)
    command(app, "pause", rich_help_panel="Jobs", examples=(
        "redkiln pause last      # free the GPU for something else",
        "redkiln resume last     # later, from the same step",
    ))(pause)  # fmt: skip
    command(app, "resume", rich_help_panel="Jobs", examples=(
        "redkiln resume last",
        "redkiln resume last --engine torch",
    ))(resume)  # fmt: skip
    command(app, "finish", rich_help_panel="Jobs", examples=(
        "redkiln finish last     # stop now and export the best so far",
        "redkiln watch last      # until the model is exported and verified",
    ))(finish)  # fmt: skip
    command(app, "priority", rich_help_panel="Jobs", examples=(
        "redkiln priority last 10     # before all jobs of lower priority",
    ))(priority)  # fmt: skip
    command(app, "move", rich_help_panel="Jobs", examples=(
        "redkiln move last --before flowers     # it runs next, and gets the priority of flowers",
        "redkiln move last --after flowers",
    ))(move)  # fmt: skip
    command(app, "retry", rich_help_panel="Jobs", examples=(
        "redkiln retry last                  # from its newest checkpoint",
        "redkiln retry last --from best",
        "redkiln retry last --from 1200      # a step listed by `redkiln checkpoints last`",
        "redkiln retry last --from start     # from the beginning",
    ))(retry)  # fmt: skip
    command(app, "checkpoints", rich_help_panel="Jobs", examples=("redkiln checkpoints last",))(
        checkpoints
    )


def cancel(
    session: Session,
    jobs: AnyJobNames = None,
    is_all: IsAll = False,
    status: Statuses = None,
    task: Task = None,
    metadata: Entries = None,
    search: Search = None,
    is_dry: IsDry = False,
    is_sure: Sure = False,
) -> None:
    """Cancel jobs; their trainers stop within seconds."""
    selection = select_jobs(
        named=jobs, is_all=is_all, is_dry=is_dry, statuses=status, task=task, entries=metadata,
        search=search,
    )  # fmt: skip
    if selection is not None:
        request = partial(_cancel_all, session, selection)
        change_selected(session, "cancel", request, is_sure=is_sure, is_dry=is_dry)
        return
    for cancelled in _steer(session, jobs or [], session.client.cancel):
        if not session.is_json and trains_model(cancelled.task) and cancelled.progress:
            hint = f"Export its best checkpoint: redkiln finish {cancelled.id}"
            session.note(Text(hint, style="dim"))


def _cancel_all(session: Session, selection: Selection, is_dry: bool) -> BulkChange:
    return session.client.cancel_all(dry_run=is_dry, **selection)


def pause(session: Session, jobs: JobNames) -> None:
    """Pause jobs: each saves a checkpoint and frees its GPU.

    A queued job is paused at once. `redkiln resume` continues either.
    """
    for paused in _steer(session, jobs, session.client.pause):
        if not session.is_json and paused.status == JobStatus.PAUSED:
            session.note(Text(f"Resume it: redkiln resume {paused.id}", style="dim"))


def resume(
    session: Session,
    jobs: JobNames,
    engine: Annotated[
        Engine | None,
        typer.Option("--engine", help="Continue with another engine.", show_default=False),
    ] = None,
) -> None:
    """Resume paused jobs from the step at which they were paused."""
    _steer(session, jobs, partial(session.client.resume, engine=engine))


def finish(session: Session, jobs: JobNames) -> None:
    """Stop training now and export the best checkpoint so far.

    Also exports the best checkpoint of a job that was paused or cancelled, or
    has failed.
    """
    for finishing in _steer(session, jobs, session.client.finish, state="finishing"):
        if not session.is_json:
            session.note(Text(f"Watch it: redkiln watch {finishing.id}", style="dim"))


def priority(
    session: Session,
    job: JobName,
    number: Annotated[
        int,
        typer.Argument(
            metavar="N", min=-100, max=100, help="Higher runs first.", show_default=False
        ),
    ],
) -> None:
    """Change the place of a waiting job in the queue."""
    _print_place(session, session.client.set_priority(find_job_id(session.client, job), number))


def move(
    session: Session,
    job: JobName,
    before: Annotated[
        str | None,
        typer.Option("--before", metavar="JOB", help="Waiting job that should run after this one.",
                     show_default=False, autocompletion=complete_job),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="JOB", help="Waiting job that should run before this one.",
                     show_default=False, autocompletion=complete_job),
    ] = None,
) -> None:  # fmt: skip
    """Move a waiting job directly before or after another one in the queue.

    The job gets the priority of the other one.
    """
    if (before is None) == (after is None):
        raise typer.BadParameter("give either --before JOB or --after JOB", param_hint="--before")
    other_id = find_job_id(session.client, before or after or "")
    place = {"before": other_id} if before is not None else {"after": other_id}
    _print_place(session, session.client.move(find_job_id(session.client, job), **place))


def retry(
    session: Session,
    job: JobName,
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="PLACE", help="newest, best, start, or the step of a checkpoint."
        ),
    ] = "newest",
) -> None:
    """Run a failed or cancelled job again, from one of its checkpoints.

    Everything after that checkpoint is computed again. Checkpoints are kept for
    a week (REDKILN_KEEP_CHECKPOINTS_HOURS of the service).
    """
    if start not in PLACES and not start.isdecimal():
        message = f"give {', '.join(PLACES)} or a step, not {start!r}"
        raise typer.BadParameter(message, param_hint="--from")
    place = int(start) if start.isdecimal() else start
    _print_job(session, session.client.retry(find_job_id(session.client, job), start=place))


def checkpoints(session: Session, job: JobName) -> None:
    """List the checkpoints that a job can restart from, newest first."""
    listed = session.client.checkpoints(find_job_id(session.client, job))
    if session.is_json:
        session.emit(listed)
        return
    if not listed:
        session.note("No checkpoints: the job has not saved one yet, or it has succeeded.")
        return
    columns = (
        Column("step", is_right=True),
        Column("best"),
        Column("size", is_right=True),
        Column("made"),
        Column("metrics", when_narrow="fold"),
    )
    rows = [
        (
            f"{item.step:,}",
            "best" if item.is_best else "",
            words.size(item.size_bytes),
            words.ago(item.created_at),
            ", ".join(f"{name} {value:.4g}" for name, value in item.metrics.items()),
        )
        for item in listed
    ]
    print_table(session.out, columns, rows)


def _steer(
    session: Session,
    named: list[str],
    change: Callable[[str], JobView],
    *,
    state: str | None = None,
) -> list[JobView]:
    """Apply a change to each of the named jobs, and print their new status, or `state`."""
    job_ids = [find_job_id(session.client, name) for name in named]
    changed = []
    for job_id in job_ids:
        changed.append(change(job_id))
        if not session.is_json:
            _print_job(session, changed[-1], state=state)
    if session.is_json:
        session.emit(changed[0] if len(changed) == 1 else changed)
    return changed


def _print_place(session: Session, job: JobView) -> None:
    if session.is_json:
        session.emit(job)
        return
    place = f", position {job.queue_position}" if job.queue_position else ""
    session.say(f"{job.name} ({job.id}) has priority {job.priority}{place}")


def _print_job(session: Session, job: JobView, *, state: str | None = None) -> None:
    if session.is_json:
        session.emit(job)
    else:
        session.say(f"{job.name} ({job.id}) is {state or job.status}")
