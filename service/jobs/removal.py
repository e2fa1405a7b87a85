"""Deletes a job with everything that belongs to it, except bytes that others need."""

from collections.abc import Callable, Sequence

from sqlmodel import Session, col, delete, select

from redkiln.status import JobStatus
from service.artifacts.models import Artifact
from service.attempts.logs import log_path
from service.attempts.models import Attempt
from service.attempts.previews import delete_previews, preview_path
from service.audit.record import note_object
from service.blobs.rules import discard
from service.changes import outbox
from service.errors import Conflict
from service.jobs.models import JobEvent, JobMetadata, JobMetric
from service.jobs.rules import drop_checkpoints, get_job
from service.metrics.models import MetricChunk, TelemetryChunk
from service.registry.needs import refuse_if_registered
from service.services import Services


def remove(
    services: Services, job_id: str, *, check: Callable[[Session], None] = lambda _session: None
) -> None:
    """Delete a finished job with its logs and sample predictions.

    Args:
        services: The parts of the service.
        job_id: Id of the job.
        check: Called in the transaction before anything is deleted; may raise `Conflict`.

    Raises:
        NotFound: There is no such job.
        Conflict: The job has not ended, or a registered version needs it.
    """

    def run(session: Session) -> Sequence[str]:
        check(session)
        return delete_job(session, job_id)

    attempt_ids = services.database.free(run)
    for attempt_id in attempt_ids:
        log_path(services.settings.logs_dir, attempt_id).unlink(missing_ok=True)
    delete_previews(preview_path(services.settings.previews_dir, job_id))


def delete_job(session: Session, job_id: str) -> Sequence[str]:
    """Delete a finished job.

    Returns:
        The ids of its attempts, whose log files the caller removes after the commit.

    Raises:
        NotFound: There is no such job.
        Conflict: The job has not ended, or a registered version needs it.
    """
    note_object(session, job_id)
    job = get_job(session, job_id, lock=True)
    if not JobStatus(job.status).is_terminal:
        message = f"the job is {job.status} and cannot be deleted; cancel it first"
        raise Conflict(message, code="job_active")
    refuse_if_registered(session, job_id)
    attempt_ids = session.exec(select(Attempt.id).where(Attempt.job_id == job_id)).all()
    sha256s = session.exec(select(Artifact.sha256).where(Artifact.job_id == job_id)).all()
    tables = (
        *(Artifact, Attempt, JobEvent, JobMetadata, JobMetric),
        *(MetricChunk, TelemetryChunk),
    )
    for table in tables:
        session.exec(delete(table).where(col(table.job_id) == job_id))
    drop_checkpoints(session, job_id)
    session.delete(job)
    discard(session, sha256s)
    outbox(session).changed.add(job_id)
    return attempt_ids
