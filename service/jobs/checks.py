"""Checks of a spec that is submitted: each returns problems that say where and what to change."""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, col, select

from redkiln.spec.engines import find_engine_problem
from redkiln.spec.job_spec import JobSpec, TrainingSpec
from redkiln.spec.job_weights import JOB_PREFIX, is_job
from redkiln.spec.own_code import names_own_code, runs_own_code, uploaded_weights
from redkiln.spec.problems import SpecError, SpecProblem
from redkiln.tasks.export import ExportSpec
from redkiln.tasks.script import NAME as SCRIPT
from redkiln.tasks.script import ScriptSpec, find_missing_data, find_misspelt
from redkiln.views.dataset import DatasetStatus
from redkiln.views.job import Warned
from service.attempts.checkpoints import find_newest
from service.bundles.models import Bundle
from service.datasets.models import Dataset
from service.datasets.readable import is_refused_for
from service.datasets.rules import find_dataset
from service.errors import Forbidden, Unprocessable
from service.http.access import may_run_scripts, why_no_scripts
from service.jobs.fitting import find_misfits
from service.jobs.initial import initial_problems, resolve_export, source_job_of
from service.jobs.models import Job
from service.jobs.rules import get_job
from service.jobs.undecided import UndecidedSpec, as_if_decided, parse_for
from service.keys.caller import Caller
from service.projects.owners import belongs_to
from service.settings import Settings
from service.workers.eligibility import (
    Machine,
    find_missing,
    find_obstacle,
    find_unsuited,
    has_only_vulkan,
    list_needed,
)
from service.workers.rules import live_machines

_START = "/script/start_from"
PASSING = {"dataset_validating", "no_live_worker"}
"""Warnings that say what a job waits for; the others stay with the job."""


@dataclass(frozen=True)
class Checked:
    """A spec that can run, with warnings for the user.

    Attributes:
        dataset: The data set; None if the task uses none.
    """

    spec: JobSpec
    dataset: Dataset | None
    warnings: list[Warned]


@dataclass(frozen=True)
class Candidate:
    """A valid spec and what it will meet: its data set and the live workers."""

    session: Session
    spec: JobSpec
    dataset: Dataset | None
    machines: list[Machine]


def check_may_run(session: Session, settings: Settings, job_id: str, *, caller: Caller) -> None:
    """Check that a caller may start a job again: code of its user needs the same scope as at first.

    Raises:
        NotFound: There is no such job.
        Forbidden: The job runs code of its user, and the caller may not run scripts.
    """
    job = get_job(session, job_id)
    runs_code = job.task == SCRIPT or names_own_code(job.spec)
    if runs_code and not may_run_scripts(caller, settings):
        raise Forbidden(why_no_scripts(caller), code="scripts_not_allowed")


def check(session: Session, settings: Settings, body: Any, *, caller: Caller) -> Checked:
    """Validate a spec against its task, its data set and the live workers.

    Raises:
        Unprocessable: With every problem that was found.
        Forbidden: The spec runs code of its user, and the caller may not run scripts.
    """
    reference = body.get("dataset") if isinstance(body, dict) else None
    dataset = _find_dataset(session, reference, project=caller.sees)
    spec, problems = _parse(body, dataset)
    _check_source(session, spec, caller)
    if isinstance(spec, ExportSpec):
        dataset = _dataset_of_source(session, spec)
    if spec is not None and _runs_code(spec) and not may_run_scripts(caller, settings):
        raise Forbidden(why_no_scripts(caller), code="scripts_not_allowed")
    known = {problem.pointer for problem in problems}
    task = "" if spec is None else spec.task
    found = _dataset_problems(session, reference, dataset, task=task, project=caller.sees)
    problems += [problem for problem in found if problem.pointer not in known]
    if spec is None:
        raise _unprocessable(problems)
    candidate = Candidate(session, spec, dataset, live_machines(session, settings))
    problems += [problem for find in CHECKS for problem in find(candidate)]
    if problems:
        raise _unprocessable(problems)
    return Checked(spec, dataset, _warnings(candidate))


def _check_source(session: Session, spec: JobSpec | None, caller: Caller) -> None:
    """Refuse a spec that uses files of another project's job as if there were no such job."""
    fields = {} if spec is None else spec.model_dump(mode="json")
    start_job = spec.start_job if isinstance(spec, ScriptSpec) else None
    job_id = start_job or source_job_of(fields)
    source = None if job_id is None else session.get(Job, job_id)
    if source is None or caller.sees in (None, source.project):
        return
    model = fields.get("model") or {}
    place = "file" if str(model.get("file", "")).startswith(JOB_PREFIX) else "pretrained"
    pointer = "/source" if "source" in fields else f"/model/{place}"
    raise _unprocessable([_unknown_job(_START if start_job else pointer, str(job_id))])


def _unknown_job(pointer: str, job_id: str) -> SpecProblem:
    message = f"there is no job {job_id!r}; GET /v1/jobs lists the jobs with their ids"
    return SpecProblem(pointer, "unknown_job", message)


def _runs_code(spec: JobSpec) -> bool:
    return isinstance(spec, ScriptSpec) or runs_own_code(as_if_decided(spec))


def bundle_of(spec: JobSpec) -> str | None:
    """Return the sha256 of the uploaded file that a spec names: code, a model, or weights."""
    spec = as_if_decided(spec)
    if isinstance(spec, ScriptSpec):
        return spec.script.bundle
    model = getattr(spec, "model", None)
    if runs_own_code(spec):
        return str(getattr(model, "bundle", None))
    weights = uploaded_weights(getattr(model, "pretrained", None))
    if weights is not None:
        return weights
    file = getattr(model, "file", None)
    return None if file is None or is_job(file) else str(file)


def _find_dataset(session: Session, reference: Any, *, project: str | None) -> Dataset | None:
    if not isinstance(reference, str) or not 1 <= len(reference) <= 200:
        return None
    if not reference.isprintable():
        return None
    return find_dataset(session, reference, project=project)


def _dataset_of_source(session: Session, spec: ExportSpec) -> Dataset | None:
    source = session.get(Job, spec.source)
    return session.get(Dataset, source.dataset_id) if source and source.dataset_id else None


def _parse(body: Any, dataset: Dataset | None) -> tuple[JobSpec | None, list[SpecProblem]]:
    try:
        return parse_for(body, dataset), []
    except SpecError as error:
        return None, list(error.problems)


def _dataset_problems(
    session: Session,
    reference: Any,
    dataset: Dataset | None,
    *,
    task: str,
    project: str | None,
) -> list[SpecProblem]:
    if dataset is None:
        if not isinstance(reference, str):
            return []  # parse_spec reports this
        known = (col(Dataset.deleted_at).is_(None), belongs_to(col(Dataset.project), project))
        names = session.exec(select(Dataset.name).where(*known)).all()
        near = difflib.get_close_matches(reference, set(names), n=1)
        hint = f"did you mean {near[0]!r}?" if near else "GET /v1/datasets lists the data sets"
        message = f"there is no data set {reference!r}; {hint}"
        return [SpecProblem("/dataset", "unknown_dataset", message)]
    if is_refused_for(task, dataset):
        message = f"data set {dataset.id} is invalid; GET /v1/datasets/{dataset.id} shows why"
        return [SpecProblem("/dataset", "invalid_dataset", message)]
    return []


def _fit_problems(candidate: Candidate) -> Iterable[SpecProblem]:
    return find_misfits(candidate.spec, candidate.dataset)


def _worker_problems(candidate: Candidate) -> Iterable[SpecProblem]:
    resolved = resolve_export(candidate.session, candidate.spec)
    spec = resolved or candidate.spec.model_dump(mode="json")
    found = (
        find_obstacle(candidate.spec.resources, candidate.machines),
        find_unsuited(spec, candidate.machines),
        *find_missing(list_needed(spec), candidate.machines),
    )
    return [problem for problem in found if problem is not None]


def _bundle_problems(candidate: Candidate) -> Iterable[SpecProblem]:
    spec = as_if_decided(candidate.spec)
    sha256 = bundle_of(spec)
    if sha256 is None or candidate.session.get(Bundle, sha256) is not None:
        return []
    if isinstance(spec, ScriptSpec):
        message = f"this code bundle is not stored; upload it first: PUT /v1/bundles/{sha256}"
        return [SpecProblem("/script/bundle", "unknown_bundle", message)]
    if runs_own_code(spec):
        message = f"this code bundle is not stored; upload it first: PUT /v1/bundles/{sha256}"
        return [SpecProblem("/model/bundle", "unknown_bundle", message)]
    message = f"this file is not stored; upload it first: PUT /v1/models/{sha256}"
    is_weights = spec.model_dump()["model"].get("file") is None
    pointer = "/model/pretrained" if is_weights else "/model/file"
    return [SpecProblem(pointer, "unknown_file", message)]


def _script_problems(candidate: Candidate) -> Iterable[SpecProblem]:
    spec = candidate.spec
    if not isinstance(spec, ScriptSpec):
        return []
    missing = find_missing_data(spec.script.command, spec.dataset)
    misspelt = find_misspelt(spec.script.command)
    found = {"no_dataset": missing, "unknown_placeholder": misspelt}
    problems = [
        SpecProblem("/script/command", code, message)
        for code, message in found.items()
        if message is not None
    ]
    return problems if spec.start_job is None else [*problems, *_start_problems(candidate, spec)]


def _start_problems(candidate: Candidate, spec: ScriptSpec) -> Iterable[SpecProblem]:
    """Return why a script cannot start with the checkpoints of the named job."""
    job_id = str(spec.start_job)
    source = candidate.session.get(Job, job_id)
    if source is None:
        return [_unknown_job(_START, job_id)]
    if source.task != SCRIPT:
        message = f"{job_id} is of task {source.task}; only a script has files in {{checkpoints}}"
        return [SpecProblem(_START, "task_mismatch", message)]
    if find_newest(candidate.session, job_id) is None:
        message = f"{job_id} has no files in {{checkpoints}}; remove start_from"
        return [SpecProblem(_START, "no_checkpoint", message)]
    return []


def _weights_problems(candidate: Candidate) -> Iterable[SpecProblem]:
    if isinstance(candidate.spec, UndecidedSpec):
        return []
    return initial_problems(candidate.session, candidate.spec, candidate.dataset)


CHECKS: tuple[Callable[[Candidate], Iterable[SpecProblem]], ...] = (
    _fit_problems,
    _worker_problems,
    _bundle_problems,
    _script_problems,
    _weights_problems,
)
"""The checks of a valid spec, in the order in which their problems are listed."""


def _unprocessable(problems: list[SpecProblem]) -> Unprocessable:
    detail = "; ".join(f"{problem.pointer or '/'}: {problem.message}" for problem in problems)
    return Unprocessable(detail, code="invalid_spec", errors=problems)


def _warnings(candidate: Candidate) -> list[Warned]:
    dataset = candidate.dataset
    warnings = []
    if dataset is not None and dataset.status == DatasetStatus.VALIDATING:
        message = f"data set {dataset.name!r} was still being validated; the job starts after that"
        if isinstance(candidate.spec, UndecidedSpec):
            message += ", with the task of the data set"
        warnings.append(Warned(code="dataset_validating", message=message))
    if dataset is not None and dataset.status == DatasetStatus.INVALID:
        message = (
            f"data set {dataset.name!r} was refused for training; the script reads it as it was "
            f"uploaded; GET /v1/datasets/{dataset.id} shows what is wrong"
        )
        warnings.append(Warned(code="dataset_refused", message=message))
    if not candidate.machines:
        message = "no worker was live when the job was submitted; it starts when one is"
        warnings.append(Warned(code="no_live_worker", message=message))
    if idle := _find_idle_engine(candidate):
        warnings.append(Warned(code="gpu_unused", message=idle))
    return warnings


def _find_idle_engine(candidate: Candidate) -> str | None:
    """Return that a job will train on a CPU although tinygrad has a GPU that it could use."""
    spec = candidate.spec
    if not isinstance(spec, TrainingSpec) or not has_only_vulkan(
        spec.resources, candidate.machines
    ):
        return None
    resources = spec.resources.model_copy(update={"engine": "tinygrad"})
    if find_engine_problem(spec.model_copy(update={"resources": resources})) is not None:
        return None
    return (
        "torch could use no GPU of the live workers at submission, so this job trains on a CPU; "
        "set resources.engine to tinygrad to train on its GPU (docs/engines.md)"
    )
