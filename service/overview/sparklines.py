"""Small curves of running jobs, read again only while they grow."""

import time
from collections.abc import Callable, Sequence

import numpy as np

from redkiln.views.job import JobSummary
from redkiln.views.overview import Sparkline
from service.database import Database
from service.metrics.job_series import load_curves
from service.metrics.series import thin

NUM_POINTS = 60
REREAD_SECONDS = 5.0
"""Longest age of a curve of a job that trains; reading a million points takes about 50 ms."""
_PREFERRED = ("train/loss", "loss", "val/loss")


class Sparklines:
    """Reads a curve of each running job.

    Args:
        clock: Monotonic clock in seconds.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[str, tuple[float, Sparkline | None]] = {}

    def read(self, jobs: Sequence[JobSummary]) -> dict[str, Sparkline | None]:
        """Return the curves by job id, and forget those of other jobs."""
        now = self._clock()
        known = {job.id: self._known.get(job.id) for job in jobs}
        self._known = {
            job.id: kept
            if (kept := known[job.id]) is not None and now - kept[0] < REREAD_SECONDS
            else (now, self._load(job))
            for job in jobs
        }
        return {job_id: curve for job_id, (_, curve) in self._known.items()}

    def _load(self, job: JobSummary) -> Sparkline | None:
        name = choose_metric(job)
        if name is None:
            return None
        curves = self._database.read(lambda session: load_curves(session, job.id, names=[name]))
        if name not in curves or not len(curves[name]):
            return None
        points = thin(curves[name], max_points=NUM_POINTS)
        values = [value if np.isfinite(value) else None for value in points[:, 1].tolist()]
        return Sparkline(name=name, steps=points[:, 0].astype(np.int64).tolist(), values=values)


def choose_metric(job: JobSummary) -> str | None:
    """Return the training loss if the job reports one, else its first metric."""
    metrics = {} if job.progress is None else job.progress.metrics
    return next((name for name in (*_PREFERRED, *metrics) if name in metrics), None)
