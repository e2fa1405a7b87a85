"""The tables of jobs, of their events and of idempotency keys."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from service.database import UtcDateTime
from service.keys.caller import DEFAULT_PROJECT

_REVISION = sa.Column("revision", sa.Integer, nullable=False)


class Job(SQLModel, table=True):
    """A job: what a user asked for.

    Attributes:
        status: A `redkiln.status.JobStatus`; only `service.jobs.rules.move` changes it.
        project: Project that owns it; other projects' keys do not see it.
        dataset_name: Name of the data set, for lists and searches.
        bundle_sha256: Digest of a script's code bundle.
        result: A `redkiln.views.result.Outcome`, once the job has ended.
        user_metadata: The spec's `metadata`; SQLModel reserves the plain name for an attribute.
        place: Place in the queue among the jobs of its priority, lowest first; see
            `service.jobs.lists.place`.
        model: Name of the model in the spec, if it names one.
        search_text: Text that a search reads; it begins with the name, so it also sorts by name.
        device: `resources.device` of the spec, for the query of a claim.
        needs: facts by which a worker fits it; see `service.workers.needs`.
        is_finishing: Whether its user asked it to stop training and export the best so far.
        fence: Fence of the newest attempt; each attempt has a higher one.
        num_attempts: Number of attempts so far.
        failures_used: Used part of the retry budget for failures of the job.
        losses_used: Used part of the retry budget for lost workers.
        deaths_step: Step at which a worker died last; -1 before the first step.
        deaths_at_step: Number of workers in a row that died at that step.
        last_event_seq: `seq` of the newest event.
        revision: Number that rises with every change. Each update is conditional on it, so that no
            change is lost, and a rendered view is valid until it changes.
        published_at: Time at which its doorbell message was last sent.
    """

    __tablename__ = "job"
    __mapper_args__ = {"version_id_col": _REVISION}

    id: str = Field(primary_key=True)
    name: str
    task: str
    project: str = Field(
        default=DEFAULT_PROJECT, sa_column_kwargs={"server_default": DEFAULT_PROJECT}
    )
    dataset_id: str | None = Field(default=None, index=True)
    dataset_name: str | None = None
    bundle_sha256: str | None = Field(default=None, index=True)
    status: str
    phase: str | None = None
    reason: dict[str, Any] | None = Field(default=None, sa_type=sa.JSON)
    warnings: list[dict[str, Any]] = Field(default_factory=list, sa_type=sa.JSON)
    progress: dict[str, Any] | None = Field(default=None, sa_type=sa.JSON)
    spec: dict[str, Any] = Field(sa_type=sa.JSON)
    result: dict[str, Any] | None = Field(default=None, sa_type=sa.JSON)
    resolved_spec: dict[str, Any] | None = Field(default=None, sa_type=sa.JSON)
    environment: dict[str, Any] | None = Field(default=None, sa_type=sa.JSON)
    user_metadata: dict[str, str] = Field(
        default_factory=dict, sa_column=sa.Column("metadata", sa.JSON, nullable=False)
    )
    priority: int = 0
    place: int = Field(default=0, sa_type=sa.BigInteger, sa_column_kwargs={"server_default": "0"})
    model: str | None = None
    search_text: str = Field(default="", sa_column_kwargs={"server_default": ""})
    device: str = "any"
    needs: str = Field(default="", sa_column_kwargs={"server_default": ""})
    is_finishing: bool = Field(default=False, sa_column_kwargs={"server_default": sa.false()})
    fence: int = 0
    num_attempts: int = 0
    failures_used: int = 0
    losses_used: int = 0
    deaths_step: int | None = Field(default=None, sa_type=sa.BigInteger)
    deaths_at_step: int = 0
    last_event_seq: int = 0
    revision: int = Field(default=0, sa_column=_REVISION)
    created_at: datetime = Field(sa_type=UtcDateTime)
    started_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    finished_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    published_at: datetime | None = Field(default=None, sa_type=UtcDateTime)


JOB: sa.Table = Job.__table__  # type: ignore[attr-defined]

IS_QUEUED: sa.ColumnElement[bool] = JOB.c.status == sa.literal_column("'queued'")
"""Condition as a literal: only with it do databases use an index of the queued jobs alone."""

sa.Index("ix_job_queue", JOB.c.status, JOB.c.priority.desc(), JOB.c.place, JOB.c.id)
# In the order of a claim, with all columns that it reads: a row with its specs has kilobytes.
sa.Index(
    "ix_job_claim",
    JOB.c.priority.desc(),
    *(JOB.c.place, JOB.c.id, JOB.c.device, JOB.c.needs, JOB.c.task, JOB.c.dataset_id),
    *(JOB.c.created_at, JOB.c.failures_used),
    sqlite_where=IS_QUEUED,
    postgresql_where=IS_QUEUED,
)
sa.Index("ix_job_task_id", JOB.c.task, JOB.c.id)
sa.Index("ix_job_status_id", JOB.c.status, JOB.c.id, JOB.c.project)
# Lists are filtered in these narrow indexes, because a row with its specs has kilobytes.
_FILTERED = (JOB.c.status, JOB.c.task, JOB.c.dataset_id, JOB.c.project, JOB.c.search_text)
sa.Index("ix_job_by_id", JOB.c.id, *_FILTERED)
sa.Index("ix_job_by_name", JOB.c.search_text, JOB.c.id, *_FILTERED[:4])
sa.Index("ix_job_by_end", JOB.c.finished_at, JOB.c.id, *_FILTERED)
sa.Index("ix_job_by_priority", JOB.c.priority, JOB.c.id, *_FILTERED)


class JobMetric(SQLModel, table=True):
    """A metric of a job's result, by which jobs are sorted."""

    __tablename__ = "job_metric"
    __table_args__ = (sa.Index("ix_job_metric_value", "name", "value", "job_id"),)

    job_id: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    value: float = Field(sa_type=sa.Double)


JOB_METRIC: sa.Table = JobMetric.__table__  # type: ignore[attr-defined]


class JobMetadata(SQLModel, table=True):
    """An entry of a job's metadata, by which lists find it."""

    __tablename__ = "job_metadata"
    __table_args__ = (sa.Index("ix_job_metadata_value", "key", "value", "job_id"),)

    job_id: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    value: str


JOB_METADATA: sa.Table = JobMetadata.__table__  # type: ignore[attr-defined]


class JobEvent(SQLModel, table=True):
    """One thing that happened to a job; `seq` has no gaps within the job."""

    __tablename__ = "job_event"

    job_id: str = Field(primary_key=True)
    seq: int = Field(primary_key=True)
    at: datetime = Field(sa_type=UtcDateTime)
    kind: str
    attempt_id: str | None = None
    data: dict[str, Any] = Field(default_factory=dict, sa_type=sa.JSON)


class IdempotencyKey(SQLModel, table=True):
    """A submission that was answered, and its response.

    Attributes:
        owner: Id of the caller; two callers may choose the same key.
        body_sha256: Digest of the canonical request.
        response: Body of the response, as it was sent.
    """

    __tablename__ = "idempotency_key"

    owner: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    body_sha256: str
    job_id: str
    response: str
    created_at: datetime = Field(sa_type=UtcDateTime, index=True)
