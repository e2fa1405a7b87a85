"""The tables of series: a job's metrics over its steps, and its telemetry over time."""

from typing import ClassVar

import sqlalchemy as sa
from sqlmodel import Field, SQLModel


class Chunk(SQLModel):
    """Consecutive points of one series of one attempt.

    Attributes:
        capacity: Points in a full chunk; a report may have to rewrite this many.
        number: Position in the series; only the last chunk grows.
        last_step: Step (or milliseconds since 1970) of the last point.
        points: little-endian float64 pairs (place, value), in rising places.
    """

    capacity: ClassVar[int]

    attempt_id: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    number: int = Field(primary_key=True)
    job_id: str
    num_points: int
    last_step: int = Field(sa_type=sa.BigInteger)
    points: bytes


class MetricChunk(Chunk, table=True):
    """Points of a metric over the optimiser's steps."""

    __tablename__ = "metric_chunk"
    # The order in which a job's series are read, so that the blobs are never sorted.
    __table_args__ = (sa.Index("ix_metric_chunk_series", "job_id", "name", "attempt_id", "number"),)
    capacity: ClassVar[int] = 8192  # 128 KiB


class TelemetryChunk(Chunk, table=True):
    """Points of a sensor over time.

    The chunks are small because a report has few points for each of many series.
    """

    __tablename__ = "telemetry_chunk"
    __table_args__ = (
        sa.Index("ix_telemetry_chunk_series", "job_id", "name", "attempt_id", "number"),
    )
    capacity: ClassVar[int] = 512  # 8 KiB


METRIC_CHUNK: sa.Table = MetricChunk.__table__  # type: ignore[attr-defined]
TELEMETRY_CHUNK: sa.Table = TelemetryChunk.__table__  # type: ignore[attr-defined]
