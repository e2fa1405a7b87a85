"""The table of workers."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from service.database import UtcDateTime


class Worker(SQLModel, table=True):
    """A worker that has said hello.

    Attributes:
        boot_id: of its newest process; claims of older ones are refused.
        gpus: `redkiln.job.GpuView` of each.
    """

    __tablename__ = "worker"

    id: str = Field(primary_key=True)
    boot_id: str
    hostname: str
    version: str
    torch_version: str | None = None
    arch_list: list[str] = Field(default_factory=list, sa_type=sa.JSON)
    gpus: list[dict[str, Any]] = Field(default_factory=list, sa_type=sa.JSON)
    slots: int
    last_seen_at: datetime = Field(sa_type=UtcDateTime, index=True)


WORKER: sa.Table = Worker.__table__  # type: ignore[attr-defined]
