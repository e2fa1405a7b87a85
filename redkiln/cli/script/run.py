"""`redkiln run`: runs the user's own program, on the queue or on this machine."""

import os
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from redkiln.cli.arguments.completion import complete_data, complete_job
from redkiln.cli.arguments.inspect_path import check_path
from redkiln.cli.arguments.naming import find_job_id
from redkiln.cli.arguments.specfile import SpecSource
from redkiln.cli.artifacts import deliver_result
from redkiln.cli.command import Session, command
from redkiln.cli.dataset_words import unfit_words
from redkiln.cli.datasets import find_dataset, upload, wait_until_ready
from redkiln.cli.exit_codes import ExitCode
from redkiln.cli.jobs import print_detached
from redkiln.cli.problems import UsageError
from redkiln.cli.script.code import send_code
from redkiln.cli.script.follow import follow_script
from redkiln.cli.script.local_run import run_here
from redkiln.cli.view.result import load_result
from redkiln.errors import DatasetInvalid
from redkiln.nearest import find_nearest
from redkiln.spec.job_weights import JOB_PREFIX
from redkiln.status import JobStatus
from redkiln.tables import find_file_type
from redkiln.tasks.script import NAME, find_missing_data, find_misspelt
from redkiln.views.job import JobView


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    command(
        app,
        "run",
        rich_help_panel="Train",
        examples=(
            "redkiln run --dataset flowers -- python train.py --data {data} --out {out}",
            "redkiln run --gpus 2 -r requirements.txt -- python train.py",
            "redkiln run --env WANDB_MODE=offline --set script.limits.processes=64 -- bash all.sh",
            "redkiln run --from last -- python train.py    # with its checkpoints, new code",
            "redkiln run --local -- python train.py --out {out}    # on this machine, no queue",
        ),
        context_settings={"allow_interspersed_args": False},
    )(run)


def run(
    session: Session,
    program: Annotated[
        list[str],
        typer.Argument(
            metavar="-- PROGRAM [ARGUMENTS]",
            help="What to run, after --. {data}, {out} and {checkpoints} are replaced by folders.",
            show_default=False,
        ),
    ],
    gpus: Annotated[
        int | None,
        typer.Option("--gpus", min=0, help="Number of GPUs; 0 runs on the CPU.",
                     show_default=False),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", "-d", metavar="D", show_default=False,
                     autocompletion=complete_data,
                     help="Name or id of a data set, or a path to upload first "
                     "(with --local: a path to read in place)."),
    ] = None,
    requirements: Annotated[
        Path | None,
        typer.Option("--requirements", "-r", metavar="FILE", show_default=False,
                     help="Additional packages; torch is never replaced."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the job.")] = None,
    variables: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", metavar="KEY=VALUE", show_default=False,
                     help="An environment variable. Repeatable. Not a place for secrets."),
    ] = None,
    code: Annotated[
        Path, typer.Option("--code", metavar="FOLDER", help="Folder with the code to send.")
    ] = Path(),
    start_from: Annotated[
        str | None,
        typer.Option("--from", metavar="JOB", show_default=False, autocompletion=complete_job,
                     help="Start with the files in {checkpoints} of another script, such as a "
                     "failed one whose code you have corrected: id, name, or `last`."),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", show_default=False,
                     help="Set a field of the spec, e.g. script.grace_seconds=60. Repeatable."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FOLDER", show_default=False,
                     help="Folder for the results (default ./out/JOB_NAME)."),
    ] = None,
    is_detached: Annotated[
        bool, typer.Option("--detach", help="Queue the job and return at once.")
    ] = False,
    is_local: Annotated[
        bool, typer.Option("--local", help="Run on this machine without the queue, with the same "
                           "folders and the patches for its GPUs.")
    ] = False,
) -> None:  # fmt: skip
    """Run your own program on the queue, with leased GPUs, and download its files.

    Sends the code in this folder (except what .gitignore excludes, and nothing
    if it has not changed), shows the output live, and downloads what the
    program writes to {out}. Ctrl-C detaches; the job continues. The exit status
    is 1 if the program fails.
    """
    program = _name_python(session, program)
    _require_program(program, code)
    source = _build_spec(program, gpus=gpus, requirements=requirements, variables=variables)
    if name is not None:
        source.value["name"] = name
    source.assign(assignments or ())
    session.locate = source.locate
    if start_from is not None and not is_local:
        _take_over(session, source, start_from, has_dataset=dataset is not None)
    missing = find_missing_data(program, source.value.get("dataset", dataset))
    if missing is not None:
        raise UsageError(f"{missing[0].upper()}{missing[1:]}: --dataset NAME_OR_PATH")
    if misspelt := find_misspelt(program):
        raise UsageError(f"{misspelt[0].upper()}{misspelt[1:]}")
    if is_local and start_from is not None:
        raise UsageError("--from needs the queue; --local continues from its own checkpoints.")
    if is_local:
        here = None if dataset is None else Path(dataset)
        raise typer.Exit(run_here(session, source, data=here, code=code, folder=folder))
    data = None if dataset is None else _choose_data(session, dataset)
    # The code first: a service that runs no scripts refuses it before anything is sent.
    source.value["script"]["bundle"] = send_code(session, code)
    if data is not None:
        source.value["dataset"] = _push_data(session, data) if isinstance(data, Path) else data
    job = session.client.submit(source.value)
    if is_detached:
        _print_queued(session, job)
        return
    warned = _told_of_data(job) if isinstance(data, Path) else set()
    try:
        ended = follow_script(session, job, warned)
    except KeyboardInterrupt:
        print_detached(session, job.id)
        session.note(f"After it ends, download its files: redkiln download {job.id}")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    result = load_result(session.client, ended)
    deliver_result(session, result, folder, screen=session.notes, warned=warned, is_model=False)
    if ended.status is JobStatus.FAILED and not session.is_json:
        _offer_restart(session, ended, program)
    raise typer.Exit(result.exit_code)


def _take_over(session: Session, source: SpecSource, start_from: str, *, has_dataset: bool) -> None:
    """Start with an earlier job's checkpoints, and with its data set if none is named."""
    start_job = find_job_id(session.client, start_from)
    source.put("script.start_from", f"{JOB_PREFIX}{start_job}", place=f"--from {start_from}")
    earlier = session.client.job(start_job).spec.get("dataset")
    if earlier is not None and not has_dataset:
        source.value.setdefault("dataset", earlier)


def _offer_restart(session: Session, job: JobView, program: list[str]) -> None:
    """Print how to continue from the checkpoints of a failed job, if it has any."""
    if session.client.checkpoints(job.id):
        session.note(
            "The files in {checkpoints} are kept. To continue from them after you have corrected "
            f"the code, add --from: redkiln run --from {job.id} -- {shlex.join(program)}"
        )


def _build_spec(
    program: list[str],
    *,
    gpus: int | None,
    requirements: Path | None,
    variables: list[str] | None,
) -> SpecSource:
    script: dict[str, Any] = {"command": program}
    places = {"/script/command": "PROGRAM", "/script/env": "--env", "/dataset": "--dataset"}
    if requirements is not None:
        script["requirements"] = _read_requirements(requirements)
        places["/script/requirements"] = str(requirements)
    if variables:
        script["env"] = dict(_split_variable(item) for item in variables)
    value: dict[str, Any] = {"task": NAME, "script": script}
    if gpus is not None:
        device = {"device": "gpu", "gpus": gpus} if gpus else {"device": "cpu"}
        value["resources"] = device
        places["/resources"] = "--gpus"
    return SpecSource(value, places)


def _name_python(session: Session, program: list[str]) -> list[str]:
    """Put `python` before a Python file that cannot be run by itself."""
    name = program[0]
    is_runnable = os.sep in name and os.access(name, os.X_OK)
    if not name.endswith(".py") or is_runnable:
        return program
    session.note(f"{name} is a Python file, so this runs: {shlex.join(['python', *program])}")
    return ["python", *program]


def _require_program(program: list[str], code: Path) -> None:
    """Check that a Python file that the program starts with is in the folder of the code.

    Raises:
        UsageError: It is not, so the job would wait for its turn and then fail.
    """
    if program[0] not in ("python", "python3") or not code.is_dir():
        return
    name = next((word for word in program[1:] if word != "-u"), "")
    if not name.endswith(".py") or Path(name).is_absolute() or (code / name).is_file():
        return
    near = find_nearest(name, sorted(path.name for path in code.glob("*.py")))
    raise UsageError(f"There is no file {name} in the folder of the code, {code.resolve()}{near}")


def _read_requirements(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"--requirements {path} cannot be read: {reason}") from error
    stripped = [line.partition(" #")[0].strip() for line in lines]
    return [line for line in stripped if line and not line.startswith("#")]


def _split_variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--env {text}: write it as KEY=VALUE.")
    return name, value


def _choose_data(session: Session, named: str) -> str | Path:
    """Return the reference to a data set, or the path that is to be uploaded.

    If a folder here and a data set of the service have the same name, the data set is used.
    """
    path = Path(named).expanduser()
    if not path.exists():
        if os.sep in named or find_file_type(path.name):
            raise UsageError(f"--dataset {named}: there is no such file or folder.")
        return named
    if os.sep not in named and path.is_dir() and _is_known(session, named):
        session.note(f"--dataset {named}: using the data set; write ./{named} for the folder")
        return named
    check_path(path)
    return path


def _push_data(session: Session, path: Path) -> str:
    """Upload a data set and wait for its validation; return its id.

    A script reads the upload itself, so one that no task could train on only causes a note.
    """
    pushed = upload(session, path, None)
    try:
        wait_until_ready(session, pushed)
    except DatasetInvalid as error:
        session.note(Text(unfit_words(error.dataset), style="yellow"))
    return pushed.id


def _told_of_data(job: JobView) -> set[str]:
    """Return the job's warning about its data, which the note of `_push_data` has told already."""
    return {warning.message for warning in job.warnings if warning.code == "dataset_refused"}


def _is_known(session: Session, named: str) -> bool:
    try:
        find_dataset(session, named)
    except UsageError:
        return False
    return True


def _print_queued(session: Session, job: JobView) -> None:
    if session.is_json:
        session.emit(job)
        return
    session.say(Text.assemble("queued ", (job.name, "bold"), f" as {job.id}"))
    session.note(Text(f"Show its output: redkiln logs {job.id} -f", style="dim"))
