"""The tables of attempts and of their checkpoints."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from service.database import UtcDateTime


class Attempt(SQLModel, table=True):
    """One execution of a job by a worker.

    Attributes:
        number: 1 for the job's first attempt.
        fence: a write counts only under the attempt's own fence while it is running.
        claim_id: chosen by the worker, so that a repeated claim finds this attempt.
        boot_id: of the worker process that claimed it.
        lease_until_at: database time at which it is given up, unless it reports before.
        last_seq: number of the newest event that was taken in.
        resumed_from_step: of the checkpoint that it went on from: the newest that it was offered,
            until it says that it took an earlier one.
        log_bytes: kept size of its log.
        lost_log_bytes: log that the worker gave up on.
        finish_sha256: of the finish request, so that a repeated one is told from another.
        finish_status: what `finish` answered.
    """

    __tablename__ = "attempt"
    __table_args__ = (
        sa.UniqueConstraint("job_id", "number"),
        sa.UniqueConstraint("job_id", "fence"),
        sa.Index(
            "ix_attempt_one_running",
            "job_id",
            unique=True,
            sqlite_where=sa.text("status = 'running'"),
            postgresql_where=sa.text("status = 'running'"),
        ),
        sa.Index("ix_attempt_status_lease", "status", "lease_until_at"),
        sa.Index("ix_attempt_worker_status", "worker_id", "status"),
    )

    id: str = Field(primary_key=True)
    job_id: str
    number: int
    fence: int
    status: str
    worker_id: str
    boot_id: str
    claim_id: str = Field(unique=True)
    lease_until_at: datetime = Field(sa_type=UtcDateTime)
    phase: str | None = None
    last_seq: int = 0
    last_step: int | None = Field(default=None, sa_type=sa.BigInteger)
    resumed_from_step: int | None = Field(default=None, sa_type=sa.BigInteger)
    log_bytes: int = Field(default=0, sa_type=sa.BigInteger)
    lost_log_bytes: int = Field(default=0, sa_type=sa.BigInteger)
    started_at: datetime = Field(sa_type=UtcDateTime)
    finished_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    failure: dict[str, Any] | None = Field(default=None, sa_type=sa.JSON)
    details: dict[str, Any] = Field(default_factory=dict, sa_type=sa.JSON)
    finish_sha256: str | None = None
    finish_status: str | None = None


ATTEMPT: sa.Table = Attempt.__table__  # type: ignore[attr-defined]


class Checkpoint(SQLModel, table=True):
    """A committed checkpoint: the job can resume from it on any worker.

    Attributes:
        manifest: the trainer's own, handed back as it came.
    """

    __tablename__ = "checkpoint"
    __table_args__ = (sa.UniqueConstraint("job_id", "step"),)

    id: str = Field(primary_key=True)
    job_id: str
    attempt_id: str
    step: int = Field(sa_type=sa.BigInteger)
    sha256: str = Field(index=True)
    size_bytes: int = Field(sa_type=sa.BigInteger)
    is_best: bool = False
    manifest: dict[str, Any] = Field(sa_type=sa.JSON)
    created_at: datetime = Field(sa_type=UtcDateTime)
