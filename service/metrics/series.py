"""Prepares series for display: joins a job's attempts to one curve and thins it."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tsdownsample import MinMaxDownsampler, NaNMinMaxDownsampler

from service.metrics.chunks import Points


def join_attempts(attempts: Sequence[tuple[Points, int | None]]) -> Points:
    """Join the points of a job's attempts to one curve.

    Args:
        attempts: Points of each attempt and the step it resumed from, in order. Points of earlier
            attempts after that step were repeated and are dropped. So are those after the
            attempt's first point, because a script may go back further than its newest checkpoint.
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
    """Join the points of a job's attempts to one curve over time, in the order they ran.

    If a clock was set back between two attempts, the curve must not run backwards: an earlier
    attempt's points after the start of the next one are dropped.
    """
    curve = np.empty((0, 2))
    for points in attempts:
        if len(points):
            curve = np.concatenate([curve[curve[:, 0] < points[0, 0]], points])
    return curve


def thin(points: Points, *, max_points: int) -> Points:
    """Return at most `max_points` points: the first and last, and each bin's lowest and highest.

    Every extreme is kept, so that a chart with as many pixels as bins looks the same.
    """
    if len(points) <= max_points:
        return points
    # The steps are not passed: they rise evenly enough, and passing them doubles the time.
    values = np.ascontiguousarray(points[:, 1])
    downsampler: Any = MinMaxDownsampler
    if not np.isfinite(values.sum()):
        values = np.where(np.isfinite(values), values, np.nan)
        downsampler = NaNMinMaxDownsampler
    ends = np.array([0, len(points) - 1], dtype=np.uint64)
    num_inner = (max_points - 2) // 2 * 2
    if num_inner == 0:
        chosen = ends
    else:
        inner: npt.NDArray[np.uint64] = downsampler().downsample(values, n_out=num_inner)
        chosen = np.unique(np.concatenate([ends, inner]))
    shown: Points = points[chosen]
    return shown


def render_series(name: str, points: Points, *, max_points: int, places: str = "steps") -> str:
    """Render a `redkiln.views.metrics.Series` as JSON; values that are not finite become null.

    Args:
        name: Name of the series.
        points: All points of the series.
        max_points: Maximum number of points to show.
        places: Name of the first coordinate (`at_ms` for a `TelemetrySeries`).
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
