"""Takes a report: heartbeat, events, metrics and log in one fenced transaction."""

import errno
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from sqlmodel import Session

from redkiln.events import Event
from redkiln.protocol import ReportRequest, ReportResponse
from redkiln.status import JobStatus
from redkiln.views.job import Warned
from service.attempts.fencing import hold_fence
from service.attempts.folding import Folded, fold
from service.attempts.logs import append_chunk, log_path
from service.attempts.models import Attempt
from service.changes import outbox
from service.database import read_now
from service.errors import SequenceGap, StorageFull
from service.jobs.lists.search import describe
from service.jobs.models import Job
from service.jobs.rules import get_job, has_checkpoint, note_event, rewind
from service.metrics.chunks import MAX_SERIES, append_series, drop_points
from service.metrics.models import TelemetryChunk
from service.settings import Settings
from service.workers.models import Worker

_COMMANDS: dict[JobStatus, Literal["continue", "pause"]] = {
    JobStatus.RUNNING: "continue",
    JobStatus.PAUSING: "pause",
}
_TOO_MANY = Warned(
    code="too_many_series",
    message=f"the job reports more than {MAX_SERIES} metrics; only the first ones are kept",
)
MAX_WARNINGS = 100
"""Maximum warnings in a job's view; the job's events have all of them."""


def take_report(
    session: Session, settings: Settings, *, attempt_id: str, fence: int, report: ReportRequest
) -> ReportResponse:
    """Store the new content of a report, which may repeat earlier reports.

    Raises:
        Superseded: The attempt no longer belongs to its worker.
        SequenceGap: Events before these are missing.
        Unprocessable: An event has invalid data.
        StorageFull: The log could not be written.
    """
    attempt = hold_fence(session, attempt_id, fence=fence, lease_seconds=settings.lease_seconds)
    job = get_job(session, attempt.job_id, lock=True)
    now = read_now(session)
    new = new_events(report, last_seq=attempt.last_seq)
    folded = fold(new, phase=attempt.phase)
    attempt.last_seq += len(new)
    attempt.lost_log_bytes = max(attempt.lost_log_bytes, report.dropped_log_bytes)
    _apply(session, job, attempt, folded)
    _take_telemetry(session, attempt, report)
    _take_log(settings, attempt, report)
    if report.log is not None:
        outbox(session).changed.add(job.id)
    _touch_worker(session, attempt.worker_id, now)
    session.add(attempt)
    return ReportResponse(
        acked_seq=attempt.last_seq,
        log_size=attempt.log_bytes,
        log_full=attempt.log_bytes >= settings.log_quota_bytes,
        lease_seconds=settings.lease_seconds,
        report_seconds=settings.report_seconds,
        command=_COMMANDS.get(JobStatus(job.status), "cancel"),
    )


def new_events(report: ReportRequest, *, last_seq: int) -> Sequence[Event]:
    """Return the events of a report that are not stored yet.

    Raises:
        SequenceGap: Events between the last stored one and these are missing.
    """
    if report.first_seq > last_seq + 1:
        raise SequenceGap(expected_seq=last_seq + 1)
    return report.events[last_seq + 1 - report.first_seq :]


def _apply(session: Session, job: Job, attempt: Attempt, folded: Folded) -> None:
    if folded.phase is not None:
        job.phase = attempt.phase = folded.phase
    if folded.undone_after is not None:
        drop_points(session, attempt.id, after_step=folded.undone_after)
        _go_back(session, job, attempt, step=folded.undone_after)
    if folded.progress is not None:
        job.progress = folded.progress.model_dump(mode="json")
    if folded.last_step is not None:
        attempt.last_step = folded.last_step
    if folded.resolved_spec is not None:
        job.resolved_spec = folded.resolved_spec
        describe(job)
        job.environment = folded.environment or job.environment
    if folded.result is not None:
        attempt.details = {**attempt.details, "result": folded.result}
    warnings = list(folded.warnings)
    if append_series(session, folded.points, job_id=job.id, attempt_id=attempt.id):
        warnings.append(_TOO_MANY)
    job.warnings = add_warnings(job.warnings, warnings)
    for event in folded.kept:
        note_event(session, job, event.kind, event.data, at=event.at, attempt_id=attempt.id)
    if folded.changes_job or folded.kept:
        outbox(session).changed.add(job.id)


def _go_back(session: Session, job: Job, attempt: Attempt, *, step: int) -> None:
    """Record the step that an attempt really resumed from, if it could not use the offered one."""
    if attempt.resumed_from_step is None or step >= attempt.resumed_from_step:
        return
    is_fresh_start = step == 0 and not has_checkpoint(session, job.id, step=0)
    attempt.resumed_from_step = attempt.last_step = None if is_fresh_start else step
    rewind(job, step=attempt.resumed_from_step)


def add_warnings(known: list[dict[str, str]], new: Sequence[Warned]) -> list[dict[str, str]]:
    """Return the job's warnings with the new ones added, each warning only once."""
    warnings = list(known)
    for warned in new:
        warning = warned.model_dump()
        if warning not in warnings and len(warnings) < MAX_WARNINGS:
            warnings.append(warning)
    return warnings


def _take_telemetry(session: Session, attempt: Attempt, report: ReportRequest) -> None:
    append_series(
        session,
        report.telemetry,
        job_id=attempt.job_id,
        attempt_id=attempt.id,
        table=TelemetryChunk,
    )


def _take_log(settings: Settings, attempt: Attempt, report: ReportRequest) -> None:
    if report.log is None:
        return
    path = log_path(settings.logs_dir, attempt.id)
    quota = settings.log_quota_bytes
    try:
        attempt.log_bytes = append_chunk(path, report.log, size=attempt.log_bytes, quota=quota)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StorageFull("the service's disk is full; delete jobs or data sets") from error


def _touch_worker(session: Session, worker_id: str, now: datetime) -> None:
    worker = session.get(Worker, worker_id)
    if worker is not None:
        worker.last_seen_at = now
        session.add(worker)
