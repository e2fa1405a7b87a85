"""The tables of workers and of their current hardware status."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from service.database import UtcDateTime


class Worker(SQLModel, table=True):
    """A worker that has registered.

    Attributes:
        boot_id: Boot id of its newest process; claims of older ones are refused.
        gpus: `redkiln.views.worker.GpuView` of each.
        packages: Optional packages that it has; None if it does not say.
        engine_devices: `redkiln.views.worker.EngineDevice` of each; None if it does not say.
    """

    __tablename__ = "worker"

    id: str = Field(primary_key=True)
    boot_id: str
    hostname: str
    version: str
    torch_version: str | None = None
    arch_list: list[str] = Field(default_factory=list, sa_type=sa.JSON)
    gpus: list[dict[str, Any]] = Field(default_factory=list, sa_type=sa.JSON)
    packages: list[str] | None = Field(default=None, sa_type=sa.JSON)
    engine_devices: list[dict[str, Any]] | None = Field(default=None, sa_type=sa.JSON)
    slots: int
    last_seen_at: datetime = Field(sa_type=UtcDateTime, index=True)


WORKER: sa.Table = Worker.__table__  # type: ignore[attr-defined]


class WorkerStatus(SQLModel, table=True):
    """The newest status of a worker's hardware, without history.

    It has its own table because it is large and written every few seconds.

    Attributes:
        boot_id: Boot id of the process that sent it; a status of another process is ignored.
        seq: Number of the newest message.
        at: Time at which the service received it.
        gpus: `redkiln.views.hardware.GpuState` of each.
        exclusions: By GPU key, why a GPU is not used; the only part that a claim reads.
        sampling_seconds: Seconds that reading all sensors took.
        doctor: The last `redkiln.views.doctor.DoctorReport`.
    """

    __tablename__ = "worker_status"

    worker_id: str = Field(primary_key=True)
    boot_id: str
    seq: int = Field(sa_type=sa.BigInteger)
    at: datetime = Field(sa_type=UtcDateTime)
    gpus: list[dict[str, Any]] = Field(default_factory=list, sa_type=sa.JSON)
    exclusions: dict[str, dict[str, Any]] = Field(default_factory=dict, sa_type=sa.JSON)
    sampling_seconds: float | None = Field(default=None, sa_type=sa.Double)
    doctor: dict[str, Any] | None = Field(default=None, sa_type=sa.JSON)
    doctor_verdict: str | None = None


WORKER_STATUS: sa.Table = WorkerStatus.__table__  # type: ignore[attr-defined]
