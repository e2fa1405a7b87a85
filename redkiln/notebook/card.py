"""A job as a small piece of HTML: its state, its progress, and its curves."""

import math
from collections.abc import Sequence
from html import escape

from redkiln.views.job import JobView
from redkiln.views.metrics import Series

WIDTH, HEIGHT = 220, 60
"""Size of a curve in pixels."""
MAX_CURVES = 6


def render_card(job: JobView, series: Sequence[Series]) -> str:
    """Return a job as HTML without scripts; all of its texts are escaped."""
    status = f"{job.status}, {job.phase}" if job.phase and not job.is_terminal else str(job.status)
    parts = [f"<b>{escape(job.name)}</b> <code>{escape(job.id)}</code>: {escape(status)}"]
    if job.reason is not None:
        parts.append(f"<div>{escape(job.reason.message)}</div>")
    if job.progress is not None and not job.is_terminal:
        parts.append(_render_progress(job.progress.fraction, job.progress.eta_seconds))
    if metrics := job.metrics():
        rows = (
            f"<tr><td>{escape(name)}</td><td>{value:.6g}</td></tr>"
            for name, value in metrics.items()
        )
        parts.append(f"<table>{''.join(rows)}</table>")
    curves = (_render_curve(one) for one in series[:MAX_CURVES])
    parts.append(f'<div style="display:flex;flex-wrap:wrap;gap:1em">{"".join(curves)}</div>')
    return f"<div>{''.join(parts)}</div>"


def _render_progress(fraction: float, eta_seconds: float | None) -> str:
    rest = "" if eta_seconds is None else f", about {eta_seconds:.0f} s left"
    return f'<div><progress max="1" value="{fraction:.4f}"></progress> {fraction:.0%}{rest}</div>'


def _render_curve(series: Series) -> str:
    points = [
        (step, value)
        for step, value in zip(series.steps, series.values, strict=True)
        if value is not None and math.isfinite(value)
    ]
    if len(points) < 2:
        return ""
    steps, values = zip(*points, strict=True)
    path = " ".join(
        f"{WIDTH * _place(step, steps):.1f},{HEIGHT * (1 - _place(value, values)):.1f}"
        for step, value in points
    )
    name = escape(series.name)
    return (
        f'<figure style="margin:0"><svg width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{name}"><polyline points="{path}" fill="none" stroke="currentColor"/></svg>'
        f"<figcaption>{name}: {values[-1]:.6g}</figcaption></figure>"
    )


def _place(value: float, values: Sequence[float]) -> float:
    """Return where a value is between the smallest (0) and the largest (1)."""
    low, high = min(values), max(values)
    return (value - low) / (high - low) if high > low else 0.5
