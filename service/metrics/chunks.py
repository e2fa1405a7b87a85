"""Series as packed float64 pairs: a million points as rows take ten times as long to read."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlmodel import Session, col, select

from service.metrics.tables import METRIC_CHUNK, MetricChunk

CHUNK_POINTS = 8192
"""Points in a full chunk: 128 KiB, what a report may have to write again."""

Points = npt.NDArray[np.float64]
"""(N, 2) float64: step and value."""


def append_points(
    session: Session,
    *,
    job_id: str,
    attempt_id: str,
    name: str,
    points: Sequence[tuple[int, float]],
) -> None:
    """Add points to a series of an attempt; steps that it has already are left out."""
    new = np.asarray(points, dtype="<f8").reshape(-1, 2)
    last = _last_chunk(session, attempt_id, name)
    if last is not None:
        new = new[new[:, 0] > last.last_step]
    if not len(new):
        return
    number = 0
    if last is not None:
        number = last.number + 1
        if last.num_points < CHUNK_POINTS:
            new = np.concatenate([_unpack(last.points), new])
            number = last.number
            session.delete(last)
            session.flush()
    for start in range(0, len(new), CHUNK_POINTS):
        part = new[start : start + CHUNK_POINTS]
        session.add(
            MetricChunk(
                attempt_id=attempt_id,
                name=name,
                number=number + start // CHUNK_POINTS,
                job_id=job_id,
                num_points=len(part),
                last_step=int(part[-1, 0]),
                points=part.tobytes(),
            )
        )
    session.flush()


def load_points(
    session: Session, job_id: str, *, names: Sequence[str] | None, after_step: int | None
) -> dict[str, dict[str, Points]]:
    """The points of a job's series: by name, then by attempt."""
    statement = (
        sa.select(METRIC_CHUNK.c.name, METRIC_CHUNK.c.attempt_id, METRIC_CHUNK.c.points)
        .where(METRIC_CHUNK.c.job_id == job_id)
        .order_by(METRIC_CHUNK.c.name, METRIC_CHUNK.c.attempt_id, METRIC_CHUNK.c.number)
    )
    if names:
        statement = statement.where(METRIC_CHUNK.c.name.in_(names))
    if after_step is not None:
        statement = statement.where(METRIC_CHUNK.c.last_step > after_step)
    parts: dict[str, dict[str, list[bytes]]] = {}
    for name, attempt_id, packed in session.execute(statement):
        parts.setdefault(name, {}).setdefault(attempt_id, []).append(packed)
    return {
        name: {attempt_id: _unpack(b"".join(packed)) for attempt_id, packed in attempts.items()}
        for name, attempts in parts.items()
    }


def _last_chunk(session: Session, attempt_id: str, name: str) -> MetricChunk | None:
    statement = select(MetricChunk).where(
        MetricChunk.attempt_id == attempt_id, MetricChunk.name == name
    )
    return session.exec(statement.order_by(col(MetricChunk.number).desc()).limit(1)).first()


def _unpack(packed: bytes) -> Points:
    return np.frombuffer(packed, dtype="<f8").reshape(-1, 2)
