"""Renders all series of a job as one JSON document."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sqlmodel import Session, col, select

from service.attempts.models import Attempt
from service.jobs.rules import get_job
from service.metrics.chunks import Points, find_begun, load_points
from service.metrics.models import TELEMETRY_CHUNK
from service.metrics.series import join_attempts, join_times, render_series


@dataclass(frozen=True)
class Window:
    """A range of steps, or of milliseconds since 1970; None leaves a side open.

    Attributes:
        exclusive_start: Only points after this one.
        start: Only points from this one on.
        end: Only points up to this one.
    """

    exclusive_start: int | None = None
    start: int | None = None
    end: int | None = None

    @property
    def after(self) -> int | None:
        """The last place that is outside on the left."""
        sides = [self.exclusive_start, None if self.start is None else self.start - 1]
        return max((side for side in sides if side is not None), default=None)

    def cut(self, curve: Points) -> Points:
        """Return the points of a curve that are inside."""
        places = curve[:, 0]
        first = 0 if self.after is None else np.searchsorted(places, self.after, side="right")
        last = len(curve) if self.end is None else np.searchsorted(places, self.end, side="right")
        return curve[first:last]


def render_job_series(
    session: Session,
    job_id: str,
    *,
    names: Sequence[str],
    window: Window,
    max_points: int,
) -> str:
    """Return `{"series": [...]}`, each thinned to `max_points`; unknown names are skipped.

    Raises:
        NotFound: There is no such job.
    """
    curves = load_curves(session, job_id, names=names, after_step=window.after)
    rendered = [
        render_series(name, window.cut(curve), max_points=max_points)
        for name, curve in sorted(curves.items())
    ]
    return f'{{"series":[{",".join(rendered)}]}}'


def load_curves(
    session: Session, job_id: str, *, names: Sequence[str], after_step: int | None = None
) -> dict[str, Points]:
    """Return the curves of a job over all of its attempts, by name; all of them without names.

    Args:
        session: Reading session.
        job_id: Id of the job.
        names: Names of the series to load.
        after_step: Leave out chunks that end at this step or before.

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
    curves = {}
    for name, by_attempt in loaded.items():
        parts: list[tuple[Points, int | None]] = []
        for id_, step in attempts:
            if (name, id_) in begun:  # it repeated the later steps of earlier attempts
                parts.clear()
            if id_ in by_attempt:
                parts.append((by_attempt[id_], step))
        curves[name] = join_attempts(parts)
    return curves


def render_job_telemetry(
    session: Session,
    job_id: str,
    *,
    names: Sequence[str],
    window: Window,
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
    loaded = load_points(
        session, job_id, names=names, after_step=window.after, table=TELEMETRY_CHUNK
    )
    rendered = []
    for name, by_attempt in sorted(loaded.items()):
        curve = join_times([by_attempt[id_] for id_ in attempts if id_ in by_attempt])
        shown = window.cut(curve)
        rendered.append(render_series(name, shown, max_points=max_points, places="at_ms"))
    return f'{{"series":[{",".join(rendered)}]}}'
