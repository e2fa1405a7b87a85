"""Renders all series of a job as one JSON document."""

from collections.abc import Sequence

from sqlmodel import Session, col, select

from service.attempts.models import Attempt
from service.jobs.rules import get_job
from service.metrics.chunks import Points, find_begun, load_points
from service.metrics.models import TELEMETRY_CHUNK
from service.metrics.series import join_attempts, join_times, render_series


def render_job_series(
    session: Session,
    job_id: str,
    *,
    names: Sequence[str],
    after_step: int | None,
    max_points: int,
) -> str:
    """Return `{"series": [...]}`, each thinned to `max_points`; unknown names are skipped.

    Raises:
        NotFound: There is no such job.
    """
    get_job(session, job_id)
    attempts = session.exec(
        select(Attempt.id, Attempt.resumed_from_step)
        .where(Attempt.job_id == job_id)
        .order_by(col(Attempt.number))
    ).all()
    loaded = load_points(session, job_id, names=names, after_step=after_step)
    begun = set()
    if after_step is not None:
        begun = find_begun(session, job_id, names=names, step=after_step)
    rendered = []
    for name, by_attempt in sorted(loaded.items()):
        parts: list[tuple[Points, int | None]] = []
        for id_, step in attempts:
            if (name, id_) in begun:  # it repeated the later steps of earlier attempts
                parts.clear()
            if id_ in by_attempt:
                parts.append((by_attempt[id_], step))
        curve = join_attempts(parts)
        if after_step is not None:
            curve = curve[curve[:, 0] > after_step]
        rendered.append(render_series(name, curve, max_points=max_points))
    return f'{{"series":[{",".join(rendered)}]}}'


def render_job_telemetry(
    session: Session,
    job_id: str,
    *,
    names: Sequence[str],
    after_ms: int | None,
    max_points: int,
) -> str:
    """Return the same document for a job's telemetry, over time.

    Raises:
        NotFound: There is no such job.
    """
    get_job(session, job_id)
    attempts = session.exec(
        select(Attempt.id).where(Attempt.job_id == job_id).order_by(col(Attempt.number))
    ).all()
    loaded = load_points(session, job_id, names=names, after_step=after_ms, table=TELEMETRY_CHUNK)
    rendered = []
    for name, by_attempt in sorted(loaded.items()):
        curve = join_times([by_attempt[id_] for id_ in attempts if id_ in by_attempt])
        if after_ms is not None:
            curve = curve[curve[:, 0] > after_ms]
        rendered.append(render_series(name, curve, max_points=max_points, places="at_ms"))
    return f'{{"series":[{",".join(rendered)}]}}'
