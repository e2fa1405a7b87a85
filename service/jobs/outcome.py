"""What a job achieved, and how long it took; recorded when the job ends."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, Field, ValidationError
from sqlmodel import Session, col, delete, select

from redkiln.events import EventKind
from redkiln.status import JobStatus
from redkiln.views.comparison import Comparison, CrossValidation, Interval, Threshold
from redkiln.views.result import CopiesInTest, JobResult, Outcome, Verdict
from redkiln.views.variants import VariantView
from service.artifacts.models import Artifact
from service.artifacts.rules import artifact_view, list_artifacts
from service.attempts.models import Attempt
from service.jobs.models import Job, JobEvent, JobMetric

_STATES = {
    "submitted": "queued",
    "requeued": "queued",
    "resumed": "queued",
    "retried": "queued",
    "started": "running",
    "paused": "paused",
}
"""The state that an event begins; `cancelling` and `pausing` are still running."""
_FINISHING = "finishing"
"""Puts a job that is paused or has ended into the queue; any other job stays in its state."""
_ENDS = frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED})


def measure_outcome(session: Session, job: Job) -> Outcome:
    """Return what a job has achieved by now."""
    events = session.exec(
        select(JobEvent)
        .where(
            JobEvent.job_id == job.id,
            col(JobEvent.kind).in_([*_STATES, *_ENDS, _FINISHING, EventKind.PHASE]),
        )
        .order_by(col(JobEvent.seq))
    ).all()
    reported = _reported(session, job.id)
    metrics = final_metrics(reported.get("metrics") or {})
    standing = read_standing(reported)
    return Outcome(
        metrics=metrics,
        headline=find_headline(metrics, compared=standing.get("comparison")),
        **standing,
        verdict=judge(
            session.exec(
                select(Artifact.verified).where(Artifact.job_id == job.id, Artifact.kind == "model")
            ).all()
        ),
        **measure_times(events),
    )


def record_outcome(session: Session, job: Job) -> None:
    """Keep the result of a job that has ended where lists find it: in its row, and by metric."""
    forget_outcome(session, job)
    outcome = measure_outcome(session, job)
    job.result = outcome.model_dump(mode="json")
    for name, value in outcome.metrics.items():
        session.add(JobMetric(job_id=job.id, name=name, value=value))


def forget_outcome(session: Session, job: Job) -> None:
    """Remove the result of a job that has not ended any more, or is deleted."""
    job.result = None
    session.exec(delete(JobMetric).where(col(JobMetric.job_id) == job.id))


def result_of(session: Session, job: Job) -> JobResult | None:
    """Return the result of a job that has ended; None for a job that has not."""
    if not JobStatus(job.status).is_terminal:
        return None
    known = job.result or measure_outcome(session, job).model_dump()
    files = [artifact_view(artifact) for artifact in list_artifacts(session, job.id)]
    return JobResult(**known, files=files)


def final_metrics(reported: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of the test split, or all finite ones if none is named `test/...`."""
    numbers = {
        name: float(value)
        for name, value in reported.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }
    return {name: v for name, v in numbers.items() if name.startswith("test/")} or numbers


class _Standing(BaseModel):
    intervals: dict[str, Interval] = Field(default_factory=dict)
    comparison: Comparison | None = None
    copies: CopiesInTest | None = None
    threshold: Threshold | None = None
    cross_validation: CrossValidation | None = None
    variants: list[VariantView] = Field(default_factory=list)
    recommendation: str = ""


def read_standing(reported: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a reported result says besides its metrics, such as intervals and variants.

    None of it decides anything, so what another version of the worker reports is left out.
    """
    try:
        return dict(_Standing.model_validate(reported))
    except ValidationError:
        return {}


def find_headline(metrics: Iterable[str], *, compared: Comparison | None = None) -> str | None:
    """Return the metric to judge by: of the exported file, or the one that baselines are judged by.

    The second is macro F1 if one class has most of the samples, because accuracy says little then.
    """
    known = list(metrics)
    found = next((name for name in known if name.endswith("_onnx")), None)
    if compared is None or compared.metric not in known:
        return found
    return found if found == f"{compared.metric}_onnx" else compared.metric


def judge(verified: Iterable[bool | None]) -> Verdict | None:
    """Return the verdict on all models of a job, if it has any."""
    verdicts = list(verified)
    if not verdicts:
        return None
    if False in verdicts:
        return Verdict.UNVERIFIED
    return Verdict.NOT_CHECKED if None in verdicts else Verdict.VERIFIED


def measure_times(events: Iterable[JobEvent]) -> dict[str, Any]:
    """Return the time that a job spent in the queue, paused, running, and in each phase.

    Args:
        events: The job's changes of status and phase, in order.

    Returns:
        The fields of `Outcome` that are times, in seconds.
    """
    states: dict[str, float] = defaultdict(float)
    phases: dict[str, float] = defaultdict(float)
    state, since = None, None
    phase, phase_since = None, None
    for event in events:
        if event.kind == _FINISHING and state in ("queued", "running"):
            continue
        if phase is not None and phase_since is not None:
            # A worker's clock may differ from the service's.
            phases[phase] += max(0.0, (event.at - phase_since).total_seconds())
        if event.kind == EventKind.PHASE:
            phase, phase_since = str(event.data["phase"]), event.at
            continue
        phase = None
        if state is not None and since is not None:
            states[state] += (event.at - since).total_seconds()
        state, since = _state_after(event.kind), event.at
    return {
        **{f"{name}_seconds": round(states[name], 3) for name in ("queued", "paused", "running")},
        "phase_seconds": {name: round(seconds, 3) for name, seconds in phases.items()},
    }


def _state_after(kind: str) -> str | None:
    return "queued" if kind == _FINISHING else _STATES.get(kind)


def _reported(session: Session, job_id: str) -> Mapping[str, Any]:
    """Return the result of the newest attempt that reported one."""
    newest = select(Attempt).where(Attempt.job_id == job_id).order_by(col(Attempt.number).desc())
    for attempt in session.exec(newest):
        if "result" in attempt.details:
            found: Mapping[str, Any] = attempt.details["result"]
            return found
    return {}
