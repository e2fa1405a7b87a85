import math
from datetime import UTC, datetime

import pytest

from redkiln.events import Event, EventKind
from redkiln.status import Phase
from service.attempts.folding import fold
from service.errors import Unprocessable


def event(kind, **data):
    return Event(at=datetime(2026, 1, 1, tzinfo=UTC), kind=kind, data=data)


def test_a_batch_is_reduced_to_its_newest_values():
    folded = fold(
        [
            event(EventKind.PHASE, phase="preparing"),
            event(EventKind.PHASE, phase="training"),
            event(EventKind.PROGRESS, step=1, steps=10),
            event(EventKind.PROGRESS, step=2, steps=10),
            event(EventKind.METRICS, points={"train/loss": [[1, 0.5], [2, None]]}),
            event(EventKind.METRICS, points={"train/loss": [[3, 0.25]], "lr": [[3, 0.1]]}),
            event(EventKind.WARNING, code="slow", message="one thread"),
            event(EventKind.RESOLVED, spec={"a": 1}, environment={"torch": "2"}),
            event(EventKind.RESULT, metrics={"accuracy": 1.0}),
            event(EventKind.MESSAGE, text="hello"),
        ]
    )
    assert folded.phase is Phase.TRAINING
    assert folded.progress.step == folded.last_step == 2
    steps, values = zip(*folded.points["train/loss"], strict=True)
    assert steps == (1, 2, 3)
    assert math.isnan(values[1])
    assert folded.points["lr"] == [(3, 0.1)]
    assert [warned.code for warned in folded.warnings] == ["slow"]
    assert folded.resolved_spec == {"a": 1}
    assert folded.environment == {"torch": "2"}
    assert folded.result == {"metrics": {"accuracy": 1.0}}


def test_a_changed_spec_keeps_the_known_environment():
    folded = fold(
        [
            event(EventKind.RESOLVED, spec={"a": 1}, environment={"torch": "2"}),
            event(EventKind.RESOLVED, spec={"a": 2}),
        ]
    )
    assert (folded.resolved_spec, folded.environment) == ({"a": 2}, {"torch": "2"})


def test_progress_and_metrics_are_not_kept_as_events():
    folded = fold([event(EventKind.PROGRESS), event(EventKind.METRICS, points={})])
    assert folded.kept == []


def test_undone_points_are_also_dropped_from_their_own_batch():
    folded = fold(
        [
            event(EventKind.METRICS, points={"loss": [[7, 1.0], [8, 1.0]], "lr": [[8, 0.2]]}),
            event(EventKind.METRICS, points={}, undone_after=6),
            event(EventKind.METRICS, points={"loss": [[7, 0.5], [8, 0.5], [9, 0.5]]}),
            event(EventKind.METRICS, points={"lr": [[9, 0.1]]}, undone_after=8),
        ]
    )
    assert folded.undone_after == 6
    assert folded.points == {"loss": [(7, 0.5), (8, 0.5)], "lr": [(9, 0.1)]}


def test_a_checkpoint_sets_the_last_step():
    progress = event(EventKind.PROGRESS, step=1)
    checkpoint = event(EventKind.CHECKPOINT, step=33, file="x", is_best=False, metrics={})
    assert fold([progress, checkpoint]).last_step == 33


def test_an_empty_batch_changes_nothing():
    assert not fold([]).changes_job


@pytest.mark.parametrize(
    ("kind", "data", "pointer"),
    [
        (EventKind.PHASE, {"phase": "napping"}, "/events/1/data/phase"),
        (EventKind.PHASE, {}, "/events/1/data/phase"),
        (EventKind.PROGRESS, {"step": "many"}, "/events/1/data/step"),
        (EventKind.WARNING, {"code": "x"}, "/events/1/data/message"),
        (EventKind.METRICS, {"points": {"a": [[-1, 0.0]]}}, "/events/1/data/points/a/0/0"),
        (EventKind.METRICS, {"points": {"": []}}, "/events/1/data/points//[key]"),
    ],
)
def test_an_invalid_event_is_refused_with_its_place(kind, data, pointer):
    with pytest.raises(Unprocessable) as caught:
        fold([event(EventKind.MESSAGE, text="fine"), event(kind, **data)])
    assert pointer in [problem.pointer for problem in caught.value.errors]


@pytest.mark.parametrize(
    ("phase", "entered", "kept"),
    [
        (None, ["preparing", "preparing", "training"], ["preparing", "training"]),
        ("preparing", ["preparing", "rehearsing"], ["rehearsing"]),
        ("training", ["evaluating", "training"], ["evaluating", "training"]),
    ],
)
def test_entering_the_same_phase_again_is_not_an_event(phase, entered, kept):
    folded = fold([event(EventKind.PHASE, phase=name) for name in entered], phase=phase)
    assert [item.data["phase"] for item in folded.kept] == kept
    assert folded.phase == entered[-1]
