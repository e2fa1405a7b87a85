"""Jobs as the API shows them. Views are cached: jobs are read far more often than they change."""

import threading
from collections import OrderedDict
from typing import Any

import sqlalchemy as sa
from sqlmodel import Session, col, select

from redkiln.spec.boosting import leave_unread
from redkiln.status import JobStatus
from redkiln.views.job import MAX_QUEUE_POSITION, AttemptView, JobSummary, JobView, Reason
from service.attempts.models import Attempt
from service.database import Database
from service.errors import NotFound
from service.jobs.lists.place import QUEUE_ORDER, is_ahead
from service.jobs.models import JOB, Job
from service.jobs.outcome import result_of
from service.jobs.rules import get_job

_STATE = sa.select(JOB.c.revision, JOB.c.status, JOB.c.priority, JOB.c.place).where(
    JOB.c.id == sa.bindparam("job_id")
)
# In the order of the index: the jobs ahead are its first rows, and counting stops at the limit.
_AHEAD = sa.select(sa.func.count()).select_from(
    sa.select(JOB.c.id)
    .where(
        JOB.c.status == JobStatus.QUEUED,
        is_ahead(sa.bindparam("priority"), sa.bindparam("place"), sa.bindparam("job_id")),
    )
    .order_by(*QUEUE_ORDER)
    .limit(MAX_QUEUE_POSITION - 1)
    .subquery()
)
SUMMARY = [
    JOB.c[name]
    for name in (
        "id",
        "name",
        "task",
        "status",
        "phase",
        "reason",
        "progress",
        "result",
        "dataset_id",
        "dataset_name",
        "model",
        "priority",
        "project",
        "metadata",
        "created_at",
        "started_at",
        "finished_at",
    )
]

Version = tuple[int, int | None]
"""Cache key of a rendered view: the job's revision, and its position while it is queued."""


class JobViews:
    """Answers `GET /v1/jobs/{id}` with one small query and a rendered view cached by revision.

    The cache key of a queued job includes its position, which changes without the job.

    Args:
        database: Database, read on each call so that a view is never older than its row.
        capacity: Number of rendered views to keep.
    """

    def __init__(self, database: Database, *, capacity: int = 1024) -> None:
        self._database = database
        self._capacity = capacity
        self._rendered: OrderedDict[str, tuple[Version, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, job_id: str) -> bytes:
        """Return a job's view as JSON.

        Raises:
            NotFound: There is no such job.
        """
        rows = self._database.execute_read(_STATE, {"job_id": job_id})
        if not rows:
            raise NotFound(
                f"there is no job {job_id!r}; GET /v1/jobs lists the jobs with their ids"
            )
        revision, status, priority, place = tuple(rows[0])
        position = None
        if status == JobStatus.QUEUED:
            key = {"job_id": job_id, "priority": priority, "place": place}
            position = self._database.execute_read(_AHEAD, key)[0][0] + 1
        with self._lock:
            kept = self._rendered.get(job_id)
            if kept is not None and kept[0] == (revision, position):
                self._rendered.move_to_end(job_id)
                return kept[1]
        return self._render(job_id, position)

    def _render(self, job_id: str, position: int | None) -> bytes:
        version, text = self._database.read(
            lambda session: _render_version(session, job_id, position)
        )
        rendered = text.encode()
        with self._lock:
            self._rendered[job_id] = (version, rendered)
            while len(self._rendered) > self._capacity:
                self._rendered.popitem(last=False)
        return rendered


def render_job(session: Session, job: Job) -> str:
    """Return a job's view as JSON, read within a transaction."""
    position = None
    if job.status == JobStatus.QUEUED:
        parameters = {"job_id": job.id, "priority": job.priority, "place": job.place}
        position = session.execute(_AHEAD, parameters).scalar_one() + 1
    return _render(session, job, position)


def summarise(row: Any) -> JobSummary:
    """Build a row of a job list from a job's columns."""
    return JobSummary(is_terminal=JobStatus(row["status"]).is_terminal, **row)


def summary_of(job: Job) -> JobSummary:
    """Build a row of a job list from a job."""
    facts = {column.name: getattr(job, column.name) for column in SUMMARY}
    return summarise({**facts, "metadata": job.user_metadata})


def _render_version(session: Session, job_id: str, position: int | None) -> tuple[Version, str]:
    """Render the view with a freshly counted position, unless the job has started meanwhile."""
    job = get_job(session, job_id)
    if job.status != JobStatus.QUEUED:
        position = None
    elif position is None:
        return (job.revision, None), render_job(session, job)  # requeued meanwhile
    return (job.revision, position), _render(session, job, position)


def _render(session: Session, job: Job, queue_position: int | None) -> str:
    statement = select(Attempt).where(Attempt.job_id == job.id).order_by(col(Attempt.number))
    attempts = session.exec(statement).all() if job.num_attempts else ()
    view = JobView(
        **summary_of(job).model_dump(exclude={"result", "queue_position"}),
        result=result_of(session, job),
        warnings=job.warnings,
        queue_position=queue_position,
        attempts=[_attempt_view(attempt) for attempt in attempts],
        spec=leave_unread(job.spec),
        resolved_spec=job.resolved_spec and leave_unread(job.resolved_spec),
        environment=job.environment,
    )
    return view.model_dump_json()


def _attempt_view(attempt: Attempt) -> AttemptView:
    facts = attempt.model_dump(exclude={"failure", "details"})
    failure = attempt.failure
    if failure is None:
        return AttemptView(**facts, details=attempt.details)
    details = {**attempt.details, "failure": failure["details"]}
    return AttemptView(**facts, failure=Reason.model_validate(failure), details=details)
