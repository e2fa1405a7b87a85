"""Commands on jobs: submit, watch, list, show, delete."""

import itertools
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from redkiln.cli.arguments.completion import complete_job
from redkiln.cli.arguments.confirm import Sure, ask_before_deleting
from redkiln.cli.arguments.naming import find_dataset_name, find_job_id
from redkiln.cli.arguments.selection import (
    Entries,
    IsAll,
    IsDry,
    Search,
    Statuses,
    Task,
    change_selected,
    read_entry,
    select_jobs,
)
from redkiln.cli.arguments.specfile import SpecSource, load_spec_file, parse_spec_text
from redkiln.cli.command import Session, command
from redkiln.cli.exit_codes import ExitCode
from redkiln.cli.script.sent_model import send_spec_code
from redkiln.cli.view.job_list import BY_FACT, order_of, print_jobs, refuse_metric
from redkiln.cli.view.job_page import estimate_lines, print_job, spec_text
from redkiln.cli.view.live import JsonScreen, follow_job, screen_for
from redkiln.cli.view.result import load_result, print_result
from redkiln.client.selection import Selection
from redkiln.status import JobStatus
from redkiln.views.bulk import BulkChange
from redkiln.views.job import JobSummary, JobView

JobNames = Annotated[
    list[str],
    typer.Argument(metavar="JOB...", help="Ids or their beginnings, names, or `last`.",
                   show_default=False, autocompletion=complete_job),
]  # fmt: skip
AnyJobNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="[JOB...]", help="Ids or their beginnings, names, or `last`.",
                   show_default=False, autocompletion=complete_job),
]  # fmt: skip
JobName = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="Id or its beginning, name, or `last`.",
        show_default=False,
        autocompletion=complete_job,
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set a field of the spec, e.g. training.epochs=5. Repeatable.",
        show_default=False,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Check the spec; print it with its defaults and an estimate."),
]


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    command(app, "submit", rich_help_panel="Train", examples=(
        "redkiln submit examples/digits.yaml --watch",
        "redkiln submit flowers.yaml --set training.epochs=3 --set model=resnet18",
        "redkiln submit flowers.yaml --dry-run        # check it and fill in the defaults",
        "echo '{\"dataset\": \"builtin:digits\"}' | redkiln submit -",
    ))(submit)  # fmt: skip
    command(app, "watch", rich_help_panel="Train", examples=(
        "redkiln watch last",
        "redkiln watch flowers && echo verified",
        "redkiln watch last --json | jq .type         # one JSON object a line",
    ))(watch)  # fmt: skip
    command(app, "jobs", rich_help_panel="Jobs", examples=(
        "redkiln jobs --status running",
        "redkiln jobs --metadata team=blue --limit 5",
        "redkiln jobs --search 'resnet18 flowers'",
        "redkiln jobs --sort test/accuracy           # the best first",
    ))(jobs)  # fmt: skip
    command(app, "job", rich_help_panel="Jobs", examples=("redkiln job last",))(job)
    command(
        app,
        "delete",
        rich_help_panel="Jobs",
        examples=(
            "redkiln delete last",
            "redkiln delete job_01a job_01b --yes",
            "redkiln delete --all --status failed --dry-run",
        ),
    )(delete)


def submit(
    session: Session,
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="A YAML or JSON file; `-` is stdin.")],
    assignments: Assignments = None,
    is_watched: Annotated[
        bool, typer.Option("--watch", "-w", help="Show the job live until it ends.")
    ] = False,
    is_dry: DryRun = False,
) -> None:
    """Queue a job from a spec file.

    The shortest spec only names a data set: `dataset: flowers`. All other fields
    have defaults; `redkiln tasks show image-classification` lists them. The code
    of your own network (`source: code`) is sent from the spec's folder.
    """
    source = read_spec(spec)
    source.assign(assignments or ())
    send_spec_code(session, source, folder=Path(spec).absolute().parent)
    session.locate = source.locate
    if is_dry:
        print_dry_run(session, source)
        return
    queued = session.client.submit(source.value)
    if is_watched:
        show_to_the_end(session, queued.id)
    else:
        print_queued(session, queued)


def watch(session: Session, job: JobName) -> None:
    """Show a job live until it ends; Ctrl-C detaches and the job continues.

    The exit status says how the job ended: 0 verified, 1 failed, 4 cancelled,
    5 succeeded but unverified.
    """
    show_to_the_end(session, find_job_id(session.client, job))


def jobs(
    session: Session,
    status: Annotated[
        JobStatus | None, typer.Option("--status", "-s", help="Only jobs in this status.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", help="Only jobs of this task.")] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            "--metadata", "-m", metavar="KEY=VALUE", help="Only jobs with this value. Repeatable."
        ),
    ] = None,
    search: Annotated[
        str | None,
        typer.Option("--search", metavar="WORDS", show_default=False,
                     help="Only jobs with these words in name, id, data set, model or task."),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option("--project", show_default=False,
                     help="Only jobs of this project (needs an admin key for other projects)."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Maximum number of jobs to list.")
    ] = 20,
    sort_by: Annotated[
        str | None,
        typer.Option("--sort", metavar="KEY", show_default=False,
                     help="A metric such as test/accuracy, the best first; or "
                     f"{', '.join(BY_FACT)}."),
    ] = None,
) -> None:  # fmt: skip
    """List jobs, newest first; waiting jobs with their position in the queue.

    With --sort, jobs that lack the value are left out.
    """
    found = session.client.jobs(
        status=status,
        task=task,
        project=project,
        metadata=dict(read_entry(item) for item in metadata or ()),
        search=search,
        sort=None if sort_by is None else order_of(sort_by),
        limit=min(limit, 100),
    )
    listed = list(itertools.islice(found, limit))
    metric = None if sort_by is None or sort_by.lstrip("-") in BY_FACT else sort_by.lstrip("-")
    if metric and not listed and (newest := _newest(session)):
        raise refuse_metric(metric, newest)
    if session.is_json:
        session.emit(listed)
    elif not listed:
        session.note("No jobs. Start one: redkiln train builtin:digits")
    else:
        print_jobs(session.out, listed, metric=metric)


def _newest(session: Session) -> list[JobSummary]:
    return list(itertools.islice(session.client.jobs(limit=20), 20))


def job(session: Session, job: JobName) -> None:
    """Show a job: its status, attempts, results and spec."""
    found = session.client.job(find_job_id(session.client, job))
    if session.is_json:
        session.emit(found)
    else:
        dataset_name = find_dataset_name(session.client, found)
        print_job(session.out, load_result(session.client, found), dataset_name=dataset_name)


def delete(
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
    """Delete jobs that have ended, with their artifacts, events and logs."""
    selection = select_jobs(
        named=jobs, is_all=is_all, is_dry=is_dry, statuses=status, task=task, entries=metadata,
        search=search,
    )  # fmt: skip
    if selection is not None:
        request = partial(_delete_all, session, selection)
        change_selected(session, "delete", request, is_sure=is_sure, is_dry=is_dry)
        return
    job_ids = [find_job_id(session.client, named) for named in jobs or ()]
    found = [session.client.job(job_id) for job_id in job_ids]
    ask_before_deleting(session, [f"{job.name} ({job.id})" for job in found], is_sure=is_sure)
    for job_id in job_ids:
        session.client.delete(job_id)
        if not session.is_json:
            session.say(f"deleted {job_id}")
    if session.is_json:
        session.emit({"deleted": job_ids[0] if len(job_ids) == 1 else job_ids})


def _delete_all(session: Session, selection: Selection, is_dry: bool) -> BulkChange:
    return session.client.delete_all(dry_run=is_dry, **selection)


def read_spec(named: str) -> SpecSource:
    """Read a spec from a file, or from stdin for `-`."""
    if named == "-":
        return parse_spec_text(sys.stdin.read(), name="stdin")
    return load_spec_file(Path(named))


def print_dry_run(session: Session, source: SpecSource) -> None:
    """Check a spec and print it with its defaults and an estimate; nothing is queued."""
    checked = session.client.dry_run(source.value)
    if session.is_json:
        session.emit(checked)
        return
    session.say(spec_text(checked.spec))
    for line in estimate_lines(checked):
        session.note(line)


def print_queued(session: Session, queued: JobView) -> None:
    """Print that a job is queued, and how to watch it."""
    if session.is_json:
        session.emit(queued)
        return
    session.say(Text.assemble("queued ", (queued.name, "bold"), f" as {queued.id}"))
    session.note(Text(f"Watch it: redkiln watch {queued.id}", style="dim"))


def show_to_the_end(session: Session, job_id: str) -> None:
    """Watch a job until it ends and exit with the matching status."""
    screen = JsonScreen() if session.is_json else screen_for(session.out)
    try:
        ended = follow_job(session.client, job_id, screen)
    except KeyboardInterrupt:
        print_detached(session, job_id)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    result = load_result(session.client, ended)
    if not session.is_json:
        print_result(session.out, result, warned=screen.warned)
    raise typer.Exit(result.exit_code)


def print_detached(session: Session, job_id: str) -> None:
    """Say how to return to a job that continues unwatched."""
    session.note(f"Detached; the job continues. Watch it again: redkiln watch {job_id}")
    session.note(f"Stop it: redkiln cancel {job_id}")
