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
        fence: Number that a write must carry; only the running attempt's own fence counts.
        claim_id: Id chosen by the worker, so that a repeated claim finds this attempt.
        boot_id: Boot id of the worker process that claimed it.
        key_id: Id of the worker key that claimed it; None in attempts of earlier releases.
        lease_until_at: Database time at which the attempt is lost unless it reports before.
        last_seq: Number of the newest stored event.
        resumed_from_step: Step of the checkpoint that it resumed from: the newest one offered,
            until the attempt reports that it used an earlier one.
        log_bytes: Size of the stored log.
        lost_log_bytes: Bytes of log that the worker dropped.
        finish_sha256: Digest of the finish request, to recognise a repeated one.
        finish_status: Job status in the response to `finish`.
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
    key_id: str | None = None
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
        manifest: The trainer's manifest, returned unchanged.
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
