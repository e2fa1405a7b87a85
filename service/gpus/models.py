"""The table of GPUs that their owners keep free of jobs."""

from datetime import datetime

from sqlmodel import Field, SQLModel

from service.database import UtcDateTime


class GpuHeld(SQLModel, table=True):
    """A GPU that gets no job until it is given back.

    Attributes:
        key: Key of the GPU on its worker.
        job_id: Job that was paused for it, if it had one.
    """

    __tablename__ = "gpu_held"

    worker_id: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    job_id: str | None = None
    asked_at: datetime = Field(sa_type=UtcDateTime)
