"""Reads what a batch of events means for the job; `report.py` applies it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, StringConstraints, ValidationError, field_validator

from redkiln.events import TRANSIENT, Event, EventKind, Step
from redkiln.failure import JobFailure
from redkiln.spec.problems import SpecProblem, plain_message
from redkiln.status import Phase
from redkiln.views.job import Progress, Warned
from service.errors import Unprocessable

MetricName = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class _PhaseData(BaseModel):
    phase: Phase


class _MetricsData(BaseModel):
    points: dict[MetricName, list[tuple[Step, float | None]]]
    undone_after: Step | None = None


class _ResolvedData(BaseModel):
    spec: dict[str, Any]
    environment: dict[str, Any] | None = None


class _CheckpointData(BaseModel):
    step: Step


class _ProgressData(Progress):
    """Progress whose counters a database can store; a metric without a number is left out."""

    epoch: Step = 0
    epochs: Step = 0
    step: Step = 0
    steps: Step = 0

    @field_validator("metrics", mode="before")
    @classmethod
    def _drop_unknown(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: number for name, number in value.items() if number is not None}


class _AnyData(BaseModel):
    pass


_DATA: dict[EventKind, type[BaseModel]] = {
    EventKind.PHASE: _PhaseData,
    EventKind.PROGRESS: _ProgressData,
    EventKind.METRICS: _MetricsData,
    EventKind.WARNING: Warned,
    EventKind.CHECKPOINT: _CheckpointData,
    EventKind.RESOLVED: _ResolvedData,
    EventKind.FAILURE: JobFailure,
}


@dataclass
class Folded:
    """The combined effect of a batch of events.

    Attributes:
        kept: Events for the job's history.
        undone_after: The step that training went back to or began at; points of later steps from
            earlier batches are void.
        points: New points by series, in order of arrival.
        last_step: The newest reported step.
        result: The result on the test split, once there is one.
    """

    kept: list[Event] = field(default_factory=list)
    phase: Phase | None = None
    progress: Progress | None = None
    warnings: list[Warned] = field(default_factory=list)
    resolved_spec: dict[str, Any] | None = None
    environment: dict[str, Any] | None = None
    undone_after: int | None = None
    points: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    last_step: int | None = None
    result: dict[str, Any] | None = None

    @property
    def changes_job(self) -> bool:
        """Whether the batch changes the job's view."""
        parts = (self.phase, self.progress, self.resolved_spec, self.result)
        return any(part is not None for part in parts) or bool(self.warnings)


def fold(events: Sequence[Event], *, phase: str | None = None) -> Folded:
    """Read a batch of events.

    Args:
        events: Events in order.
        phase: Current phase of the attempt; entering it again is not kept, because agent and
            trainer both report `preparing`.

    Raises:
        Unprocessable: An event's data does not match its kind; the whole batch is refused.
    """
    folded = Folded()
    for index, event in enumerate(events):
        known = folded.phase or phase
        _fold_one(folded, event, _read_data(event, index))
        is_repeated = event.kind is EventKind.PHASE and folded.phase == known
        if event.kind not in TRANSIENT and not is_repeated:
            folded.kept.append(event)
    return folded


def _fold_one(folded: Folded, event: Event, data: BaseModel) -> None:
    match data:
        case _PhaseData():
            folded.phase = data.phase
        case Progress():
            folded.progress = data
            folded.last_step = data.step
        case _MetricsData():
            if data.undone_after is not None:
                _undo(folded, data.undone_after)
            for name, points in data.points.items():
                numbers = [(step, float("nan") if y is None else y) for step, y in points]
                folded.points.setdefault(name, []).extend(numbers)
        case Warned():
            folded.warnings.append(data)
        case _ResolvedData():
            folded.resolved_spec = data.spec
            folded.environment = data.environment or folded.environment
        case _CheckpointData():
            folded.last_step = data.step
        case _ if event.kind is EventKind.RESULT:
            folded.result = event.data


def _undo(folded: Folded, step: int) -> None:
    earlier = step if folded.undone_after is None else folded.undone_after
    folded.undone_after = min(step, earlier)
    for points in folded.points.values():
        points[:] = [point for point in points if point[0] <= step]


def _read_data(event: Event, index: int) -> BaseModel:
    try:
        return _DATA.get(event.kind, _AnyData).model_validate(event.data)
    except ValidationError as error:
        problems = [
            SpecProblem(
                "".join(f"/{part}" for part in ("events", index, "data", *item["loc"])),
                item["type"],
                plain_message(item["msg"]),
            )
            for item in error.errors(include_url=False)
        ]
        detail = f"event {index} of kind {event.kind} has invalid data"
        raise Unprocessable(detail, code="bad_event", errors=problems) from None
