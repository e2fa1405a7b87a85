"""Turns a spec into a queued job, or into problems that each say where and what to change."""

import difflib
import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlmodel import Session, col, delete, select

from redkiln.spec.job_spec import JobSpec
from redkiln.spec.problems import SpecError, SpecProblem
from redkiln.tasks import DEFAULT_TASK, parse_spec
from redkiln.tasks.script import ScriptSpec
from redkiln.views.dataset import DatasetStatus
from redkiln.views.job import Reason, Warned
from service.bundles.models import Bundle
from service.bundles.rules import use_bundle
from service.changes import outbox
from service.database import read_now
from service.datasets.models import Dataset
from service.datasets.rules import find_dataset
from service.errors import Forbidden, Unprocessable
from service.http.access import may_run_scripts, why_no_scripts
from service.ids import new_id
from service.jobs.fitting import find_misfits
from service.jobs.initial import initial_problems
from service.jobs.models import IdempotencyKey, Job
from service.jobs.rules import note_event
from service.jobs.views import render_job
from service.keys.caller import Caller
from service.settings import Settings
from service.workers.eligibility import Machine, find_obstacle
from service.workers.rules import live_machines


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
class Submitted:
    """The response to a submission.

    Attributes:
        response: The job's view as JSON.
        is_replayed: Whether the same request was already answered.
    """

    job_id: str
    response: str
    is_replayed: bool = False


def check(session: Session, settings: Settings, body: Any, *, caller: Caller) -> Checked:
    """Validate a spec against its task, its data set and the live workers.

    Raises:
        Unprocessable: With every problem that was found.
        Forbidden: The spec is a script, and the caller may not run scripts.
    """
    dataset = _find_dataset(session, body)
    default_task = dataset.task if dataset is not None else None
    try:
        spec = parse_spec(body, default_task=default_task or DEFAULT_TASK)
    except SpecError as error:
        known = {problem.pointer for problem in error.problems}
        further = _dataset_problems(session, body, dataset)
        problems = [*error.problems, *(item for item in further if item.pointer not in known)]
        raise _unprocessable(problems) from None
    if isinstance(spec, ScriptSpec) and not may_run_scripts(caller, settings):
        raise Forbidden(why_no_scripts(caller), code="scripts_not_allowed")
    machines = live_machines(session, settings)
    obstacle = find_obstacle(spec.resources, machines)
    problems = [*_dataset_problems(session, body, dataset), *find_misfits(spec, dataset)]
    problems += [] if obstacle is None else [obstacle]
    problems += _bundle_problems(session, spec)
    problems += initial_problems(session, spec, dataset)
    if problems:
        raise _unprocessable(problems)
    return Checked(spec, dataset, _warnings(dataset, machines))


def submit(
    session: Session, settings: Settings, body: Any, *, caller: Caller, idempotency_key: str | None
) -> Submitted:
    """Queue a job, once per idempotency key.

    Raises:
        Unprocessable: The spec has problems, or the key was used with a different body.
        Forbidden: The spec is a script, and the caller may not run scripts.
    """
    digest = hash_body(body)
    if idempotency_key is not None:
        known = session.get(IdempotencyKey, (caller.id, idempotency_key))
        if known is not None:
            return _replay(known, digest)
    checked = check(session, settings, body, caller=caller)
    now = read_now(session)
    job_id = new_id("job")
    dataset = checked.dataset
    name = checked.spec.name or default_name(dataset.name if dataset else checked.spec.task, job_id)
    reason = _waiting_reason(checked)
    job = Job(
        id=job_id,
        name=name,
        task=checked.spec.task,
        dataset_id=None if dataset is None else dataset.id,
        bundle_sha256=_bundle_of(checked.spec),
        status="queued",
        reason=reason.model_dump(mode="json"),
        spec=checked.spec.model_dump(mode="json"),
        labels=checked.spec.metadata,
        priority=checked.spec.priority,
        device=checked.spec.resources.device,
        created_at=now,
        published_at=now,
    )
    session.add(job)
    if job.bundle_sha256 is not None:
        use_bundle(session, job.bundle_sha256)
    facts = {"name": name} if dataset is None else {"name": name, "dataset_id": dataset.id}
    note_event(session, job, "submitted", at=now, **facts)
    outbox(session).queued.add(job_id)
    session.flush()
    response = render_job(session, job)
    if idempotency_key is not None:
        session.add(
            IdempotencyKey(
                owner=caller.id,
                key=idempotency_key,
                body_sha256=digest,
                job_id=job_id,
                response=response,
                created_at=now,
            )
        )
    return Submitted(job_id, response)


def forget_old_keys(session: Session, settings: Settings) -> None:
    """Delete idempotency keys that are too old to be repeated."""
    oldest = read_now(session) - timedelta(days=settings.idempotency_days)
    session.exec(delete(IdempotencyKey).where(col(IdempotencyKey.created_at) < oldest))


def hash_body(body: Any) -> str:
    """Return the digest of a request, the same for every formatting of the same JSON."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def default_name(subject: str, job_id: str) -> str:
    """Return a default name for a job: its data set or task, and a few characters of its id."""
    stem = subject.rpartition(":")[2]
    clean = "".join(char if char.isascii() and char.isalnum() else "-" for char in stem)
    return f"{clean.strip('-')[:80] or 'job'}-{job_id[-6:]}"


def _find_dataset(session: Session, body: Any) -> Dataset | None:
    reference = body.get("dataset") if isinstance(body, dict) else None
    if not isinstance(reference, str) or not 1 <= len(reference) <= 200:
        return None
    if not reference.isprintable():
        return None
    return find_dataset(session, reference)


def _dataset_problems(session: Session, body: Any, dataset: Dataset | None) -> list[SpecProblem]:
    reference = body.get("dataset") if isinstance(body, dict) else None
    if dataset is None:
        if not isinstance(reference, str):
            return []  # parse_spec reports this
        names = session.exec(select(Dataset.name).where(col(Dataset.deleted_at).is_(None))).all()
        near = difflib.get_close_matches(reference, set(names), n=1)
        hint = f"did you mean {near[0]!r}?" if near else "GET /v1/datasets lists the data sets"
        message = f"there is no data set {reference!r}; {hint}"
        return [SpecProblem("/dataset", "unknown_dataset", message)]
    if dataset.status == DatasetStatus.INVALID:
        message = f"data set {dataset.id} is invalid; GET /v1/datasets/{dataset.id} shows why"
        return [SpecProblem("/dataset", "invalid_dataset", message)]
    return []


def _bundle_of(spec: JobSpec) -> str | None:
    return spec.script.bundle if isinstance(spec, ScriptSpec) else None


def _bundle_problems(session: Session, spec: JobSpec) -> list[SpecProblem]:
    sha256 = _bundle_of(spec)
    if sha256 is None or session.get(Bundle, sha256) is not None:
        return []
    message = f"this code bundle is not stored; upload it first: PUT /v1/bundles/{sha256}"
    return [SpecProblem("/script/bundle", "unknown_bundle", message)]


def _unprocessable(problems: list[SpecProblem]) -> Unprocessable:
    detail = "; ".join(f"{problem.pointer or '/'}: {problem.message}" for problem in problems)
    return Unprocessable(detail, code="invalid_spec", errors=problems)


def _warnings(dataset: Dataset | None, machines: list[Machine]) -> list[Warned]:
    warnings = []
    if dataset is not None and dataset.status == DatasetStatus.VALIDATING:
        message = f"data set {dataset.name!r} was still being validated; the job starts after that"
        warnings.append(Warned(code="dataset_validating", message=message))
    if not machines:
        message = "no worker was live when the job was submitted; it starts when one is"
        warnings.append(Warned(code="no_live_worker", message=message))
    return warnings


def _waiting_reason(checked: Checked) -> Reason:
    for warning in checked.warnings:
        return Reason(code=warning.code, message=warning.message, retryable=True)
    return Reason(code="waiting", message="waiting for a worker with a free slot", retryable=True)


def _replay(known: IdempotencyKey, digest: str) -> Submitted:
    if known.body_sha256 != digest:
        raise Unprocessable(
            "this Idempotency-Key was already used with a different body; choose a new key",
            code="idempotency_key_reused",
        )
    return Submitted(known.job_id, known.response, is_replayed=True)
