"""The table of metric chunks."""

import sqlalchemy as sa
from sqlmodel import Field, SQLModel


class MetricChunk(SQLModel, table=True):
    """A run of points of one series of one attempt.

    Attributes:
        number: place in the series; only the last chunk still grows.
        points: little-endian float64 pairs (step, value), in rising steps.
    """

    __tablename__ = "metric_chunk"
    # In the order in which a job's series are read, so that no blob goes through a sort.
    __table_args__ = (sa.Index("ix_metric_chunk_series", "job_id", "name", "attempt_id", "number"),)

    attempt_id: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    number: int = Field(primary_key=True)
    job_id: str
    num_points: int
    last_step: int = Field(sa_type=sa.BigInteger)
    points: bytes


METRIC_CHUNK: sa.Table = MetricChunk.__table__  # type: ignore[attr-defined]
