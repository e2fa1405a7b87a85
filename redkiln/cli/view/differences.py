"""What differs between jobs: fields of their specs, and their results side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redkiln.views.job import JobView

LOWER_IS_BETTER = ("loss", "rmse", "mae", "mse", "error", "brier")
"""Parts of the names of metrics of which a low value is good."""
_NOT_COMPARED = ("name", "metadata")


@dataclass(frozen=True)
class Row:
    """One field of a spec or one result, with its value for each job.

    Attributes:
        values: One for each job; None where a job has none.
        best: Indices of the jobs with the best value; empty if there is no such thing.
    """

    name: str
    values: tuple[Any, ...]
    best: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Comparison:
    """How jobs differ.

    Attributes:
        spec: Fields that differ.
        metrics: Results of the exported models.
        folds: Mean and standard deviation over the folds of a cross-validation, by metric.
        intervals: 95 % intervals of the metrics by which the models are judged.
        unsure: For such a metric, the jobs that may be the best: the one with the best value, and
            those whose intervals overlap with its interval; nothing if there is only one.
    """

    spec: list[Row]
    metrics: list[Row]
    folds: list[Row]
    intervals: list[Row]
    unsure: dict[str, list[int]]


def compare_jobs(jobs: Sequence[JobView], *, is_ranked: bool = True) -> Comparison:
    """Compare specs and results of jobs.

    Specs are compared as the worker resolved them if it has done so for all jobs, otherwise as they
    were submitted.

    Args:
        jobs: Jobs to compare.
        is_ranked: Whether to say which results are the best: not if test splits differ.
    """
    is_resolved = all(job.resolved_spec for job in jobs)
    specs = [dict(_flatten((job.resolved_spec if is_resolved else job.spec) or {})) for job in jobs]
    if _have_same_name(
        [(spec.get("dataset"), job.dataset_id) for spec, job in zip(specs, jobs, strict=True)]
    ):
        for spec, job in zip(specs, jobs, strict=True):
            spec["dataset"] = f"{job.dataset_name or spec.get('dataset')} ({job.dataset_id})"
    paths = list(dict.fromkeys(path for spec in specs for path in spec))
    rows = [Row(path, tuple(spec.get(path) for spec in specs)) for path in paths]
    metrics, folds = _compare_metrics([job.metrics() for job in jobs]), _compare_folds(jobs)
    if not is_ranked:
        metrics, folds = (
            [replace(row, best=frozenset()) for row in one] for one in (metrics, folds)
        )
    intervals = _list_intervals(jobs)
    unsure = {
        row.name: found
        for row in intervals
        for values in [next(one.values for one in metrics if one.name == row.name)]
        if is_ranked and len(found := _find_unsure(row, values)) > 1
    }
    different = [row for row in rows if any(value != row.values[0] for value in row.values)]
    return Comparison(different, metrics, folds, intervals, unsure)


def _list_intervals(jobs: Sequence[JobView]) -> list[Row]:
    """Return the intervals of the metrics that jobs are judged by, for all jobs that have them."""
    results = [job.result for job in jobs]
    names = dict.fromkeys(one.headline for one in results if one and one.headline in one.metrics)
    rows = []
    for name in filter(None, names):
        # Jobs of earlier versions have the interval of the trained model only.
        known = [{} if one is None else one.intervals for one in results]
        usual = name.removesuffix("_onnx")
        values = tuple(one.get(name, one.get(usual)) for one in known)
        if any(value is not None for value in values):
            rows.append(Row(name, values))
    return rows


def _find_unsure(intervals: Row, values: Sequence[float | None]) -> list[int]:
    """Return the places of the jobs that may have the best value, because intervals overlap."""
    sign = -1 if is_lower_better(intervals.name) else 1
    known = {
        place: (sign * value, ends)
        for place, (value, ends) in enumerate(zip(values, intervals.values, strict=True))
        if value is not None and ends is not None
    }
    if not known:
        return []
    _, (low, high) = max(known.values(), key=lambda one: one[0])
    return [place for place, (_, ends) in known.items() if ends[0] <= high and low <= ends[1]]


def _have_same_name(datasets: Sequence[tuple[Any, str | None]]) -> bool:
    """Return whether two different data sets, with their names and ids, have the same name."""
    different = {pair for pair in datasets if pair[1] is not None}
    return len({name for name, _ in different}) < len(different)


def is_lower_better(metric: str) -> bool:
    """Return whether a low value of a metric is good."""
    return any(part in metric.rpartition("/")[2] for part in LOWER_IS_BETTER)


def _compare_metrics(found: Sequence[dict[str, float]]) -> list[Row]:
    names = dict.fromkeys(name for metrics in found for name in metrics)
    rows = []
    for name in names:
        values = [metrics.get(name) for metrics in found]
        known = [value for value in values if value is not None]
        best = min(known) if is_lower_better(name) else max(known)
        winners = frozenset(i for i, value in enumerate(values) if value == best)
        is_decided = len(known) > 1 and len(winners) < len(known)
        rows.append(Row(name, tuple(values), winners if is_decided else frozenset()))
    return rows


def _compare_folds(jobs: Sequence[JobView]) -> list[Row]:
    found = [job.result.cross_validation if job.result else None for job in jobs]
    totals = [folds.summarise() if folds else {} for folds in found]
    means = _compare_metrics([{name: mean for name, (mean, _) in one.items()} for one in totals])
    return [replace(row, values=tuple(one.get(row.name) for one in totals)) for row in means]


def _flatten(spec: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in spec.items():
        if not prefix and name in _NOT_COMPARED:
            continue
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
