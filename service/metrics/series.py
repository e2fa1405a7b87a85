"""A job's series for display: its attempts joined to one curve, thinned without hiding extremes."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tsdownsample import MinMaxLTTBDownsampler, NaNMinMaxLTTBDownsampler

from service.metrics.chunks import Points


def join_attempts(attempts: Sequence[tuple[Points, int | None]]) -> Points:
    """One curve of a job from its attempts.

    Args:
        attempts: the points of each attempt in the order in which they ran, and the step that it
            resumed from. What an earlier attempt did beyond that step was lost and done again; so
            was what it did beyond the first point of the next one, as a script may go back further
            than its newest checkpoint.
    """
    curve = np.empty((0, 2))
    for points, resumed_from_step in attempts:
        first_step = -1 if resumed_from_step is None else resumed_from_step
        before = curve[curve[:, 0] <= first_step]
        if len(points):
            before = before[before[:, 0] < points[0, 0]]
        curve = np.concatenate([before, points]) if len(before) else points
    return curve


def join_times(attempts: Sequence[Points]) -> Points:
    """One curve over time from a job's attempts, in the order in which they ran.

    A clock that was put back between two of them must not bend the curve backwards: what an earlier
    attempt has beyond the beginning of the next one goes.
    """
    curve = np.empty((0, 2))
    for points in attempts:
        if len(points):
            curve = np.concatenate([curve[curve[:, 0] < points[0, 0]], points])
    return curve


def thin(points: Points, *, max_points: int) -> Points:
    """At most `max_points` points that look like all of them: first, last, extremes, big bends."""
    if len(points) <= max_points:
        return points
    # The steps are left out: they rise evenly enough, and a million of them cost as much again.
    values = np.ascontiguousarray(points[:, 1])
    downsampler: Any = MinMaxLTTBDownsampler
    if not np.isfinite(values.sum()):
        values = np.where(np.isfinite(values), values, np.nan)
        downsampler = NaNMinMaxLTTBDownsampler
    chosen: npt.NDArray[np.uint64] = downsampler().downsample(values, n_out=max_points)
    return points[np.unique(chosen)]


def render_series(name: str, points: Points, *, max_points: int, places: str = "steps") -> str:
    """A `redkiln.views.metrics.Series` as JSON; what is not finite becomes null.

    Args:
        name: of the series.
        points: all of them.
        max_points: that are shown.
        places: what the first of each pair is called (`at_ms` of a `TelemetrySeries`).
    """
    shown = thin(points, max_points=max_points)
    values = [value if np.isfinite(value) else None for value in shown[:, 1].tolist()]
    return json.dumps(
        {
            "name": name,
            places: shown[:, 0].astype(np.int64).tolist(),
            "values": values,
            "num_points": len(points),
            "downsampled": len(shown) < len(points),
        },
        allow_nan=False,
    )
