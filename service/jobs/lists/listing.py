"""Lists of jobs: filtered, searched, sorted, in pages that continue after a job.

The ids are found in narrow indexes first; only the rows of the page are read whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from redkiln.nearest import suggest
from redkiln.spec.problems import SpecProblem
from redkiln.status import JobStatus
from redkiln.views.job import MAX_QUEUE_POSITION, JobSummary
from service.database import Database
from service.errors import Unprocessable
from service.jobs.lists.place import QUEUE_ORDER, is_behind
from service.jobs.lists.search import matches
from service.jobs.models import JOB, JOB_METADATA, JOB_METRIC
from service.jobs.views import SUMMARY, summarise

SORTS = ("created", "ended", "name", "priority", "queue")
"""What jobs can be sorted by, apart from a metric of their results."""
MOST_READ_FIRST = 500
"""Jobs that pass a filter up to which a list by a metric reads their ids first."""

_COLUMNS: dict[str, sa.ColumnElement[Any]] = {
    "ended": JOB.c.finished_at,
    "name": JOB.c.search_text,
    "priority": JOB.c.priority,
}
_QUEUE = (
    sa.select(JOB.c.id)
    .where(JOB.c.status == JobStatus.QUEUED)
    .order_by(*QUEUE_ORDER)
    .limit(MAX_QUEUE_POSITION)
)


@dataclass(frozen=True)
class Filters:
    """Which jobs to list; a job must pass all of them.

    Attributes:
        words: Each must be in the job's name, id, data set, model or task, or be its status.
        project: Project that owns the job; None for any.
        metadata: Entries that the job's metadata must have.
    """

    words: Sequence[str] = ()
    statuses: Sequence[JobStatus] = ()
    task: str | None = None
    dataset_id: str | None = None
    project: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether every job passes, or every job of a project."""
        chosen = (self.words, self.statuses, self.metadata, self.task, self.dataset_id)
        return not any(item or item == "" for item in chosen)


@dataclass(frozen=True)
class Order:
    """How to sort jobs.

    Attributes:
        key: One of `SORTS`, or the name of a metric.
    """

    key: str
    is_descending: bool = False


NEWEST_FIRST = Order("created", is_descending=True)


def parse_order(text: str) -> Order:
    """Return the order that a parameter names: a key, with `-` in front for descending."""
    return Order(text.removeprefix("-"), is_descending=text.startswith("-"))


def list_summaries(
    database: Database,
    filters: Filters,
    *,
    order: Order = NEWEST_FIRST,
    after: str | None = None,
    limit: int,
) -> list[JobSummary]:
    """Return a page of jobs, starting after the job `after`.

    Sorted by end or by a metric, only jobs that have one are listed; by queue, only queued jobs.

    Raises:
        Unprocessable: No job has the metric, or `after` has no place in this order.
    """
    statement = _select_ids(database, filters, order, after=after)
    ids = [row[0] for row in database.execute_read(statement.limit(limit))]
    if not ids and after is None:
        _check_metric(database, order.key)
    listed = load_summaries(database, ids)
    add_positions(database, listed)
    return listed


def list_names(
    database: Database, filters: Filters, *, after: str | None = None, limit: int
) -> list[tuple[str, str]]:
    """Return the ids and names of a page of jobs, newest first."""
    found = _select_ids(database, filters, NEWEST_FIRST, after=after).limit(limit).subquery()
    statement = sa.select(JOB.c.id, JOB.c.name).where(JOB.c.id.in_(sa.select(found.c.id)))
    rows = database.execute_read(statement.order_by(JOB.c.id.desc()))
    return [(row.id, row.name) for row in rows]


def load_summaries(database: Database, ids: Sequence[str]) -> list[JobSummary]:
    """Return jobs by id, in the order of the ids."""
    if not ids:
        return []
    rows = database.execute_read(sa.select(*SUMMARY).where(JOB.c.id.in_(ids)))
    by_id = {row.id: summarise(row._mapping) for row in rows}
    return [by_id[job_id] for job_id in ids if job_id in by_id]


def add_positions(database: Database, jobs: Sequence[JobSummary]) -> None:
    """Set the queue position of the queued jobs."""
    if not any(job.status is JobStatus.QUEUED for job in jobs):
        return
    rows = database.execute_read(_QUEUE)
    positions = {row[0]: position for position, row in enumerate(rows, 1)}
    for job in jobs:
        if job.status is JobStatus.QUEUED:
            job.queue_position = positions.get(job.id, MAX_QUEUE_POSITION)


def _select_ids(
    database: Database, filters: Filters, order: Order, *, after: str | None
) -> sa.Select[Any]:
    conditions = _conditions(filters)
    statement = sa.select(JOB.c.id).where(*conditions)
    if order.key == "created":
        return _continue(statement, (JOB.c.id,), order, None if after is None else (after,))
    if order.key == "queue":
        statement = statement.where(JOB.c.status == JobStatus.QUEUED).order_by(*QUEUE_ORDER)
        if after is None:
            return statement
        queued = sa.select(JOB.c.priority, JOB.c.place, JOB.c.id).where(JOB.c.id == after)
        return statement.where(is_behind(*_read_anchor(database, queued)))
    if order.key in _COLUMNS:
        value = _COLUMNS[order.key]
        statement = statement.where(value.is_not(None))
        anchor: sa.Select[Any] = sa.select(value, JOB.c.id).where(JOB.c.id == after)
    else:
        value = JOB_METRIC.c.value
        statement = _select_ids_by_metric(database, order.key, conditions)
        anchor = sa.select(value, JOB_METRIC.c.job_id).where(
            JOB_METRIC.c.job_id == after, JOB_METRIC.c.name == order.key
        )
    tie = JOB.c.id if order.key in _COLUMNS else JOB_METRIC.c.job_id
    values = None if after is None else _read_anchor(database, anchor)
    return _continue(statement, (value, tie), order, values)


def _select_ids_by_metric(
    database: Database, name: str, conditions: Sequence[sa.ColumnElement[bool]]
) -> sa.Select[Any]:
    """Return the statement for jobs that have a metric; a join would read whole rows of jobs.

    If only a few jobs pass, their ids are read first: the metrics of all others are then not read.
    """
    statement = sa.select(JOB_METRIC.c.job_id).where(JOB_METRIC.c.name == name)
    if not conditions:
        return statement
    found = sa.select(JOB.c.id).where(*conditions)
    ids = [row[0] for row in database.execute_read(found.limit(MOST_READ_FIRST + 1))]
    is_few = len(ids) <= MOST_READ_FIRST
    return statement.where(JOB_METRIC.c.job_id.in_(ids if is_few else found))


def _continue(
    statement: sa.Select[Any],
    columns: Sequence[sa.ColumnElement[Any]],
    order: Order,
    after: Sequence[Any] | None,
) -> sa.Select[Any]:
    """Sort a statement, and start it after these values of the columns."""
    if after is not None:
        key = sa.tuple_(*columns)
        place = sa.tuple_(
            *(sa.literal(value, column.type) for value, column in zip(after, columns, strict=True))
        )
        statement = statement.where(key < place if order.is_descending else key > place)
    return statement.order_by(
        *(column.desc() if order.is_descending else column for column in columns)
    )


def _conditions(filters: Filters) -> list[sa.ColumnElement[bool]]:
    conditions = matches(filters.words)
    if filters.statuses:
        conditions.append(JOB.c.status.in_(filters.statuses))
    if filters.task is not None:
        conditions.append(JOB.c.task == filters.task)
    if filters.project is not None:
        conditions.append(JOB.c.project == filters.project)
    if filters.dataset_id is not None:
        conditions.append(JOB.c.dataset_id == filters.dataset_id)
    for key, value in filters.metadata.items():
        entry = (JOB_METADATA.c.key == key, JOB_METADATA.c.value == value)
        conditions.append(JOB.c.id.in_(sa.select(JOB_METADATA.c.job_id).where(*entry)))
    return conditions


def _read_anchor(database: Database, anchor: sa.Select[Any]) -> Sequence[Any]:
    rows = database.execute_read(anchor)
    if not rows or None in tuple(rows[0]):
        message = (
            "the job of `after` was deleted or no longer has a place in this order; "
            "list again without `after`"
        )
        raise Unprocessable(message, errors=[SpecProblem("", "lost_place", message)])
    return tuple(rows[0])


def _check_metric(database: Database, key: str) -> None:
    """Refuse a misspelt key; a metric with `/` may just not have been reported yet.

    Raises:
        Unprocessable: It is neither one of `SORTS` nor the metric of any job.
    """
    if key in SORTS or "/" in key:
        return
    names = [row[0] for row in database.execute_read(sa.select(JOB_METRIC.c.name).distinct())]
    if key not in names:
        known = [*SORTS, *sorted(names)]
        message = f"jobs cannot be sorted by {key!r}{suggest(key, known) or ''}"
        raise Unprocessable(message, errors=[SpecProblem("", "unknown_sort", message)])
