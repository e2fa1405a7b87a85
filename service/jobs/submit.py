"""Turns a checked spec into a queued job, once per idempotency key."""

import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlmodel import Session, col, delete

from redkiln.spec.written import make_name
from redkiln.tasks.script import ScriptSpec
from redkiln.views.job import Reason
from service.attempts.checkpoints import copy_newest
from service.audit.record import note_object
from service.bundles.rules import use_bundle
from service.changes import outbox
from service.database import read_now
from service.errors import Unprocessable
from service.ids import new_id
from service.jobs.checks import PASSING, Checked, bundle_of, check
from service.jobs.forecast.length import dump_spec
from service.jobs.initial import resolve_export
from service.jobs.lists.place import first_place
from service.jobs.lists.search import describe
from service.jobs.models import IdempotencyKey, Job, JobMetadata
from service.jobs.rules import note_event
from service.jobs.views import render_job
from service.jobs.waiting import WAITING
from service.keys.caller import Caller
from service.projects.quotas import check_stored, check_waiting
from service.settings import Settings
from service.workers.needs import set_needs


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


def submit(
    session: Session, settings: Settings, body: Any, *, caller: Caller, idempotency_key: str | None
) -> Submitted:
    """Queue a job, once per idempotency key.

    Raises:
        Unprocessable: The spec has problems, or the key was used with a different body.
        Forbidden: The spec is a script, and the caller may not run scripts.
        TooManyRequests: The project has too many waiting jobs, or stores too much.
    """
    digest = hash_body(body)
    if idempotency_key is not None:
        known = session.get(IdempotencyKey, (caller.id, idempotency_key))
        if known is not None:
            return _replay(known, digest)
    check_waiting(session, settings, caller)
    check_stored(session, settings, caller)
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
        project=caller.project,
        dataset_id=None if dataset is None else dataset.id,
        dataset_name=None if dataset is None else dataset.name,
        bundle_sha256=bundle_of(checked.spec),
        status="queued",
        reason=reason.model_dump(mode="json"),
        spec=dump_spec(checked.spec, body, dataset),
        resolved_spec=resolve_export(session, checked.spec),
        user_metadata=checked.spec.metadata,
        warnings=[one.model_dump() for one in checked.warnings if one.code not in PASSING],
        priority=checked.spec.priority,
        place=first_place(job_id),
        created_at=now,
        published_at=now,
    )
    describe(job)
    set_needs(job)
    session.add(job)
    for key, value in job.user_metadata.items():
        session.add(JobMetadata(job_id=job_id, key=key, value=value))
    if job.bundle_sha256 is not None:
        use_bundle(session, job.bundle_sha256)
    if isinstance(checked.spec, ScriptSpec) and checked.spec.start_job is not None:
        copy_newest(session, source_id=checked.spec.start_job, job_id=job_id, at=now)
    note_object(session, job_id)
    facts = {"name": name} if dataset is None else {"name": name, "dataset_id": dataset.id}
    note_event(session, job, "submitted", facts, at=now)
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
    return f"{make_name(stem)[:80].rstrip('-._') or 'job'}-{job_id[-6:]}"


def _waiting_reason(checked: Checked) -> Reason:
    for warning in checked.warnings:
        if warning.code in PASSING:
            return Reason(code=warning.code, message=warning.message, retryable=True)
    return WAITING


def _replay(known: IdempotencyKey, digest: str) -> Submitted:
    if known.body_sha256 != digest:
        raise Unprocessable(
            "this Idempotency-Key was already used with a different body; choose a new key",
            code="idempotency_key_reused",
        )
    return Submitted(known.job_id, known.response, is_replayed=True)
