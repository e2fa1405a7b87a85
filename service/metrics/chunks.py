"""Series as packed float64 pairs; a million points as rows would take ten times longer to read."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlmodel import Session, col, select

from service.metrics.models import METRIC_CHUNK, Chunk, MetricChunk

MAX_SERIES = 2000
"""Most series of one attempt: an attempt that names more would hold up all other writers."""
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
    """Add points to a series of an attempt; points of steps it already has are skipped."""
    append_series(session, {name: points}, job_id=job_id, attempt_id=attempt_id, table=table)


def append_series(
    session: Session,
    series: Mapping[str, Sequence[tuple[int, float]]],
    *,
    job_id: str,
    attempt_id: str,
    table: type[Chunk] = MetricChunk,
) -> int:
    """Add points to many series of an attempt with a few statements.

    Returns:
        The number of series that were left out, because the attempt has `MAX_SERIES` already.
    """
    if not series:
        return 0
    kept = dict(itertools.islice(series.items(), MAX_SERIES))
    last = _last_chunks(session, table, attempt_id, list(kept))
    new_names = [name for name in kept if name not in last]
    if new_names:
        room = MAX_SERIES - _count_series(session, table, attempt_id)
        for name in new_names[max(0, room) :]:
            del kept[name]
    for name, points in kept.items():
        new = np.asarray(points, dtype="<f8").reshape(-1, 2)
        number, open_chunk = 0, last.get(name)
        if open_chunk is not None:
            new = new[new[:, 0] > open_chunk.last_step]
            new = _fill(open_chunk, new)
            number = open_chunk.number + 1
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
    return len(series) - len(kept)


def drop_points(session: Session, attempt_id: str, *, after_step: int) -> None:
    """Delete an attempt's points of later steps, which it will make again."""
    later = select(MetricChunk).where(
        MetricChunk.attempt_id == attempt_id, MetricChunk.last_step > after_step
    )
    for chunk in session.exec(later).all():
        points = _unpack(chunk.points)
        kept = points[points[:, 0] <= after_step]
        if not len(kept):
            session.delete(chunk)
            continue
        chunk.points = kept.tobytes()
        chunk.num_points = len(kept)
        chunk.last_step = int(kept[-1, 0])
    session.flush()


def load_points(
    session: Session,
    job_id: str,
    *,
    names: Sequence[str] | None,
    after_step: int | None,
    table: sa.Table = METRIC_CHUNK,
) -> dict[str, dict[str, Points]]:
    """Return the points of a job's series by name, then by attempt."""
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


def find_begun(
    session: Session, job_id: str, *, names: Sequence[str], step: int
) -> set[tuple[str, str]]:
    """Return the series, as (name, attempt id), with a chunk that ends at or before a step."""
    chunk = METRIC_CHUNK.c
    statement = sa.select(chunk.name, chunk.attempt_id).distinct()
    statement = statement.where(chunk.job_id == job_id, chunk.last_step <= step)
    if names:
        statement = statement.where(chunk.name.in_(names))
    return {(name, attempt_id) for name, attempt_id in session.execute(statement)}


def _last_chunks(
    session: Session, table: type[Chunk], attempt_id: str, names: list[str]
) -> dict[str, Chunk]:
    newest = (
        sa.select(col(table.name), sa.func.max(table.number))
        .where(col(table.attempt_id) == attempt_id, col(table.name).in_(names))
        .group_by(col(table.name))
    )
    place = sa.tuple_(col(table.name), col(table.number))
    statement = select(table).where(table.attempt_id == attempt_id, place.in_(newest))
    return {chunk.name: chunk for chunk in session.exec(statement)}


def _count_series(session: Session, table: type[Chunk], attempt_id: str) -> int:
    first = (col(table.attempt_id) == attempt_id, col(table.number) == 0)
    statement = sa.select(sa.func.count()).select_from(table).where(*first)
    return int(session.execute(statement).scalar_one())


def _fill(chunk: Chunk, new: Points) -> Points:
    """Fill the free room of a chunk with points; return the points that did not fit."""
    fitting = new[: max(0, type(chunk).capacity - chunk.num_points)]
    if len(fitting):
        chunk.points += fitting.tobytes()
        chunk.num_points += len(fitting)
        chunk.last_step = int(fitting[-1, 0])
    return new[len(fitting) :]


def _unpack(packed: bytes) -> Points:
    return np.frombuffer(packed, dtype="<f8").reshape(-1, 2)
