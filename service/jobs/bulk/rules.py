"""Cancels or deletes the jobs that a filter selects, each in a separate transaction.

One job that refuses does not keep the others from being changed. If the database is busy or the
disk full, the answer reports what was done, and the next request continues there.
"""

import contextlib
from collections.abc import Callable
from dataclasses import replace

from sqlmodel import Session

from redkiln.spec.problems import SpecProblem
from redkiln.status import JobStatus
from redkiln.views.bulk import BulkChange, BulkJob, BulkRefusal
from service.audit.record import note_object
from service.database import Database, read_now
from service.errors import Conflict, NotFound, StorageFull, Unavailable, Unprocessable
from service.jobs import steering
from service.jobs.lists.listing import Filters, list_names
from service.jobs.removal import delete_job, remove
from service.jobs.rules import get_job
from service.services import Services

MOST_JOBS = 500
"""Jobs that one request may change; each takes a transaction of about a millisecond."""
Change = Callable[[str], str]
"""Changes the job of an id, and returns its status."""


def cancel_all(
    services: Services, filters: Filters, *, after: str | None, limit: int, is_dry: bool
) -> BulkChange:
    """Cancel the jobs that a filter selects; without a status, those that have not ended.

    Raises:
        Unprocessable: The filter selects every job.
    """
    database = services.database

    def cancel(session: Session, job_id: str) -> str:
        note_object(session, job_id)
        return steering.cancel(session, job_id, now=read_now(session)).status

    def change(job_id: str) -> str:
        if is_dry:
            return _rehearse(database, lambda session: cancel(session, job_id))
        return database.write(lambda session: cancel(session, job_id))

    chosen = _narrow(filters, has_ended=False)
    return _change_all(database, chosen, change, after=after, limit=limit, is_dry=is_dry)


def delete_all(
    services: Services, filters: Filters, *, after: str | None, limit: int, is_dry: bool
) -> BulkChange:
    """Delete the jobs that a filter selects; without a status, those that have ended.

    Raises:
        Unprocessable: The filter selects every job.
    """
    database = services.database

    def delete(session: Session, job_id: str) -> str:
        status = get_job(session, job_id).status
        delete_job(session, job_id)
        return status

    def change(job_id: str) -> str:
        if is_dry:
            return _rehearse(database, lambda session: delete(session, job_id))
        status = database.read(lambda session: get_job(session, job_id).status)
        remove(services, job_id)
        return status

    chosen = _narrow(filters, has_ended=True)
    return _change_all(database, chosen, change, after=after, limit=limit, is_dry=is_dry)


def _narrow(filters: Filters, *, has_ended: bool) -> Filters:
    """Add the statuses that an action is for, if the filter names none."""
    if filters.is_empty:
        message = (
            "this would change every job; select some by `status`, `task`, `dataset`, `q` or "
            "`metadata.<key>`"
        )
        raise Unprocessable(
            message, code="no_filter", errors=[SpecProblem("", "no_filter", message)]
        )
    if filters.statuses:
        return filters
    return replace(filters, statuses=[one for one in JobStatus if one.is_terminal == has_ended])


def _change_all(
    database: Database,
    filters: Filters,
    change: Change,
    *,
    after: str | None,
    limit: int,
    is_dry: bool,
) -> BulkChange:
    selected = list_names(database, filters, after=after, limit=limit + 1)
    answer = BulkChange(dry_run=is_dry, has_more=len(selected) > limit)
    for job_id, name in selected[:limit]:
        try:
            status = JobStatus(change(job_id))
        except (Unavailable, StorageFull):
            if answer.last_id is None:
                raise
            answer.has_more = True  # what was done is reported; the next request meets the error
            return answer
        except (Conflict, NotFound) as error:
            refusal = BulkRefusal(id=job_id, name=name, code=error.code, message=error.detail)
            answer.refused.append(refusal)
        else:
            answer.done.append(BulkJob(id=job_id, name=name, status=status))
        answer.last_id = job_id
    return answer


class _UndoError(Exception):
    """Ends a transaction without a commit."""


def _rehearse(database: Database, change: Callable[[Session], str]) -> str:
    """Return what a change would, and undo it: no second copy of the rules can differ."""
    statuses: list[str] = []

    def run(session: Session) -> None:
        statuses.append(change(session))
        raise _UndoError

    with contextlib.suppress(_UndoError):
        database.write(run)
    return statuses[-1]
