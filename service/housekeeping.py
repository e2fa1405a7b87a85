"""Background work: expired leases, jobs with failed data sets, lost messages, unused bytes.

Every step is a conditional update, so housekeepers of two service processes do no harm.
"""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import structlog
from sqlmodel import Session, col, select

from redkiln.status import AttemptStatus, JobStatus
from service.attempts.ending import lose
from service.attempts.fencing import has_expired, renew_all
from service.attempts.models import Attempt
from service.attempts.previews import job_of
from service.audit.rules import forget_old_entries
from service.blobs.rules import collect, sweep
from service.bundles.rules import forget_bundles
from service.changes import outbox
from service.database import database_now, read_now
from service.datasets.models import Dataset
from service.datasets.readable import has_refused, has_what_it_reads
from service.datasets.rules import forget_deleted
from service.errors import DatabaseBusy, ServiceError
from service.jobs.lists.place import QUEUE_ORDER
from service.jobs.models import Job
from service.jobs.rules import fail_waiting
from service.jobs.steering import forget_checkpoints
from service.jobs.submit import forget_old_keys
from service.jobs.waiting import decide_undecided
from service.notices.rules import KEEP_DAYS, forget_old
from service.services import Services
from service.sessions.rules import forget_expired
from service.uploads.rules import forget_expired as forget_expired_uploads
from service.usage.retention import delete_old_files, delete_old_jobs

log = structlog.get_logger()

SWEEP_SECONDS = 3600.0
"""Pause between two searches for leftovers of crashes."""
_BATCH = 200


class Housekeeping:
    """Runs the steps in a separate thread."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)
        self._swept_at = time.monotonic() - SWEEP_SECONDS
        self._was_away = False

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop after the current step."""
        self._stop.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stop.wait(self._services.settings.reap_seconds):
            self._run_round()

    def _run_round(self) -> None:
        """Run all steps; after a round without a database, running attempts get a new lease first.

        Workers could not report meanwhile, so no lease may expire because of that.
        """
        if self._was_away and not _run_step(renew_leases, self._services):
            return
        self._was_away = False
        for step in self._steps():
            if not self._stop.is_set() and not _run_step(step, self._services):
                self._was_away = True

    def _steps(self) -> list[Callable[[Services], object]]:
        steps = list(STEPS)
        if time.monotonic() - self._swept_at >= SWEEP_SECONDS:
            self._swept_at = time.monotonic()
            steps += SWEEPS
        return steps


def renew_leases(services: Services) -> None:
    """Give every running attempt a full lease."""
    seconds = services.settings.lease_seconds
    services.database.write(lambda session: renew_all(session, lease_seconds=seconds))


def reap_expired(services: Services) -> int:
    """Take attempts away from workers that have stopped reporting; return their number."""
    database = services.database
    expired = database.read(
        lambda session: session.exec(
            select(Attempt.id)
            .where(
                Attempt.status == AttemptStatus.RUNNING,
                col(Attempt.lease_until_at) < database_now(),
            )
            .limit(_BATCH)
        ).all()
    )
    return sum([database.write(partial(_reap, attempt_id=attempt_id)) for attempt_id in expired])


def fail_jobs_of_invalid_datasets(services: Services) -> int:
    """Fail waiting jobs whose data set is invalid or deleted; return their number."""
    database = services.database
    waiting = database.read(
        lambda session: session.exec(
            select(Job.id)
            .join(Dataset, col(Dataset.id) == col(Job.dataset_id), isouter=True)
            .where(
                Job.status == JobStatus.QUEUED,
                col(Job.dataset_id).is_not(None),
                has_refused() | col(Dataset.id).is_(None) | col(Dataset.deleted_at).is_not(None),
            )
            .limit(_BATCH)
        ).all()
    )
    return sum([database.write(partial(fail_waiting, job_id=job_id)) for job_id in waiting])


def decide_left_over(services: Services) -> int:
    """Check jobs that still have no task although their data set is ready; return their number."""
    return services.database.write(decide_undecided)


def republish(services: Services) -> int:
    """Ring again for jobs that were queued but never claimed; return their number."""
    age = services.settings.republish_seconds

    def ring(session: Session) -> int:
        now = read_now(session)
        statement = (
            select(Job)
            .join(Dataset, col(Dataset.id) == col(Job.dataset_id), isouter=True)
            .where(
                Job.status == JobStatus.QUEUED,
                col(Job.published_at) < now - timedelta(seconds=age),
                has_what_it_reads(),
            )
            .order_by(*QUEUE_ORDER)
            .limit(_BATCH)
            .with_for_update(skip_locked=True, of=Job)
        )
        jobs = session.exec(statement).all()
        for job in jobs:
            job.published_at = now
            outbox(session).queued.add(job.id)
        return len(jobs)

    return services.database.write(ring)


def collect_blobs(services: Services) -> int:
    """Delete discarded bytes that nothing refers to; return the number of checked blobs."""
    return collect(services.database, services.storage)


def forget_keys(services: Services) -> None:
    """Remove old idempotency keys."""
    services.database.write(lambda session: forget_old_keys(session, services.settings))


def forget_old_checkpoints(services: Services) -> int:
    """Delete checkpoints of jobs that failed long ago; return the number of jobs."""
    seconds = services.settings.keep_checkpoints_hours * 3600
    return services.database.write(
        lambda session: forget_checkpoints(session, older_than_seconds=seconds)
    )


def forget_old_bundles(services: Services) -> int:
    """Delete old code that no job names; return the number of bundles."""
    seconds = services.settings.keep_bundles_hours * 3600
    return services.database.write(
        lambda session: forget_bundles(session, older_than_seconds=seconds)
    )


def forget_sessions(services: Services) -> None:
    """Remove expired sessions."""
    services.database.write(forget_expired)


def forget_uploads(services: Services) -> int:
    """Delete uploads that no part arrives for; return their number."""
    return forget_expired_uploads(services)


def forget_notices(services: Services) -> None:
    """Delete old entries of the log of messages."""
    services.database.write(
        lambda session: forget_old(session, before=read_now(session) - timedelta(days=KEEP_DAYS))
    )


def forget_audit(services: Services) -> None:
    """Delete old entries of the audit log."""
    days = services.settings.audit_days
    services.database.write(lambda session: forget_old_entries(session, days=days))


def forget_deleted_datasets(services: Services) -> int:
    """Remove rows of deleted data sets; return their number."""
    return services.database.write(forget_deleted)


def sweep_storage(services: Services) -> None:
    """Remove leftovers of crashes from the storage: incomplete uploads, bytes without a row."""
    services.storage.sweep_staging()
    age_seconds = services.settings.staging_hours * 3600
    sweep(services.database, services.storage, older_than_seconds=age_seconds)


def sweep_logs(services: Services) -> None:
    """Remove logs of deleted attempts and previews of deleted jobs."""
    for path in services.settings.logs_dir.glob("att_*.log"):
        attempt_id = path.stem
        if services.database.read(partial(_is_gone, attempt_id=attempt_id)):
            path.unlink(missing_ok=True)
    for path in services.settings.previews_dir.glob("job_*.preview"):
        if services.database.read(partial(_has_no_job, job_id=job_of(path))):
            path.unlink(missing_ok=True)


def restore_reserve(services: Services) -> None:
    """Take back the room that a full disk has used, once there is enough again."""
    services.reserve.restore()


STEPS: list[Callable[[Services], object]] = [
    reap_expired,
    fail_jobs_of_invalid_datasets,
    decide_left_over,
    republish,
    collect_blobs,
    restore_reserve,
]
SWEEPS: list[Callable[[Services], object]] = [
    forget_keys,
    forget_sessions,
    forget_old_checkpoints,
    delete_old_jobs,
    delete_old_files,
    forget_old_bundles,
    forget_uploads,
    forget_notices,
    forget_audit,
    forget_deleted_datasets,
    sweep_storage,
    sweep_logs,
]


def _run_step(step: Callable[[Services], object], services: Services) -> bool:
    """Run a step; return whether the database could be used."""
    try:
        count = step(services)
    except ServiceError as error:
        log.warning("housekeeping_postponed", step=step.__name__, cause=error.detail)
        return not isinstance(error, DatabaseBusy)
    except Exception:
        log.exception("housekeeping_failed", step=step.__name__)
    else:
        if count:
            log.info("housekeeping", step=step.__name__, count=count)
    return True


def _reap(session: Session, *, attempt_id: str) -> bool:
    """Mark an attempt as lost unless it has ended or reported since it was selected."""
    attempt = session.get(Attempt, attempt_id, with_for_update=True)
    now = read_now(session)
    if attempt is None or not has_expired(attempt, now=now):
        return False
    lose(session, attempt, now=now, message="the worker sent no report for a whole lease")
    log.warning("attempt_lost", job_id=attempt.job_id, attempt_id=attempt_id)
    return True


def _is_gone(session: Session, *, attempt_id: str) -> bool:
    return session.get(Attempt, attempt_id) is None


def _has_no_job(session: Session, *, job_id: str) -> bool:
    return session.get(Job, job_id) is None
