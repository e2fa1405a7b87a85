"""Series as packed float64 pairs: a million points as rows take ten times as long to read."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlmodel import Session, col, select

from service.metrics.tables import METRIC_CHUNK, Chunk, MetricChunk

Points = npt.NDArray[np.float64]
"""(N, 2) float64: step (or milliseconds since 1970) and value."""


def append_points(
    session: Session,
    *,
    job_id: str,
    attempt_id: str,
    name: str,
    points: Sequence[tuple[int, float]],
    table: type[Chunk] = MetricChunk,
) -> None:
    """Add points to a series of an attempt; steps that it has already are left out."""
    new = np.asarray(points, dtype="<f8").reshape(-1, 2)
    last = _last_chunk(session, table, attempt_id, name)
    if last is not None:
        new = new[new[:, 0] > last.last_step]
    if not len(new):
        return
    number = 0
    if last is not None:
        number = last.number + 1
        if last.num_points < table.capacity:
            new = np.concatenate([_unpack(last.points), new])
            number = last.number
            session.delete(last)
            session.flush()
    for start in range(0, len(new), table.capacity):
        part = new[start : start + table.capacity]
        session.add(
            table(
                attempt_id=attempt_id,
                name=name,
                number=number + start // table.capacity,
                job_id=job_id,
                num_points=len(part),
                last_step=int(part[-1, 0]),
                points=part.tobytes(),
            )
        )
    session.flush()


def load_points(
    session: Session,
    job_id: str,
    *,
    names: Sequence[str] | None,
    after_step: int | None,
    table: sa.Table = METRIC_CHUNK,
) -> dict[str, dict[str, Points]]:
    """The points of a job's series: by name, then by attempt."""
    statement = (
        sa.select(table.c.name, table.c.attempt_id, table.c.points)
        .where(table.c.job_id == job_id)
        .order_by(table.c.name, table.c.attempt_id, table.c.number)
    )
    if names:
        statement = statement.where(table.c.name.in_(names))
    if after_step is not None:
        statement = statement.where(table.c.last_step > after_step)
    parts: dict[str, dict[str, list[bytes]]] = {}
    for name, attempt_id, packed in session.execute(statement):
        parts.setdefault(name, {}).setdefault(attempt_id, []).append(packed)
    return {
        name: {attempt_id: _unpack(b"".join(packed)) for attempt_id, packed in attempts.items()}
        for name, attempts in parts.items()
    }


def _last_chunk(session: Session, table: type[Chunk], attempt_id: str, name: str) -> Chunk | None:
    statement = select(table).where(table.attempt_id == attempt_id, table.name == name)
    return session.exec(statement.order_by(col(table.number).desc()).limit(1)).first()


def _unpack(packed: bytes) -> Points:
    return np.frombuffer(packed, dtype="<f8").reshape(-1, 2)
