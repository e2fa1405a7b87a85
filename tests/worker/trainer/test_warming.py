import json
import threading

import pytest
import torch

from redkiln.status import Phase
from redkiln.views.job import Progress
from worker.hardware.kernel_cache import FIRST_STEPS_RECORD, has_kernels
from worker.trainer.warming import MAX_STEPS, FirstStepsRecord, Known, Warming, describe, is_steady


@pytest.mark.parametrize(
    ("durations", "is_over"),
    [
        ([], False),
        ([0.1, 0.1], False),
        ([0.1, 0.1, 0.1], True),
        ([60.0, 20.0, 0.1], False),
        ([60.0, 0.1, 0.1], True),
        ([60.0, 0.1, 0.12, 5.0], False),
        ([60.0, 0.1, 5.0, 0.1, 0.11], True),
        ([1.0, 2.0] * (MAX_STEPS // 2), True),
    ],
)
def test_steps_are_steady_when_two_in_a_row_are_close_to_the_fastest(durations, is_over):
    assert is_steady(durations) is is_over


CACHED = "the result is cached"
LAST = f"took about 42 s last time; {CACHED}"


@pytest.mark.parametrize(
    ("known", "spent", "text"),
    [
        (
            Known(is_same_known=False, has_kernels=False, seconds=None),
            0.0,
            "tuning kernels for the first run on this GPU; this may take minutes; " + CACHED,
        ),
        (
            Known(is_same_known=False, has_kernels=True, seconds=42.0),
            35.0,
            f"tuning kernels for this model and batch (35 s so far); {LAST}",
        ),
        (
            Known(is_same_known=True, has_kernels=True, seconds=2.5),
            0.0,
            "running the first steps with kernels tuned earlier; took about 2.5 s last time",
        ),
    ],
)
def test_the_activity_describes_what_is_known(known, spent, text):
    assert describe(known, spent_seconds=spent) == text


def test_the_record_distinguishes_a_cold_cache_from_a_warm_one(tmp_path):
    folder = tmp_path / "gfx1100" / "torch" / "slot-0"
    first = FirstStepsRecord(folder, {"model": "resnet18"})
    assert first.look() == Known(is_same_known=False, has_kernels=False, seconds=None)
    first.note(60.0)
    assert (folder / FIRST_STEPS_RECORD).exists()
    (folder / "miopen").mkdir()
    (folder / "miopen" / "gfx1100.ufdb.txt").write_text("kernels")
    first.note(2.0)
    assert first.look() == Known(is_same_known=True, has_kernels=True, seconds=2.0)
    # Another model has to tune again, and what that took the last time is known.
    other = FirstStepsRecord(folder, {"model": "amdnet"})
    assert other.look() == Known(is_same_known=False, has_kernels=True, seconds=60.0)


def test_the_record_itself_does_not_count_as_a_kernel(tmp_path):
    FirstStepsRecord(tmp_path, "x").note(1.0)
    assert not has_kernels(tmp_path, besides="first-steps.json")
    assert not has_kernels(tmp_path / "missing")


@pytest.mark.parametrize("content", ["", "[]", "{"])
def test_an_unreadable_record_is_started_again(tmp_path, content):
    (tmp_path / "first-steps.json").write_text(content)
    record = FirstStepsRecord(tmp_path, "x")
    assert not record.look().is_same_known
    record.note(1.0)
    assert record.look().is_same_known


class Device:
    """Time passes while it is waited for: the first step tunes, the others do not."""

    def __init__(self, seconds):
        self.seconds = list(seconds)
        self.now = 0.0

    def clock(self):
        return self.now

    def synchronize(self):
        self.now += self.seconds.pop(0)


@pytest.fixture
def warm_up(make_event_log, tmp_path):
    def build(device, *, record=None, **options):
        event_log = make_event_log()
        warming = Warming(
            synchronize=device.synchronize,
            record=record or FirstStepsRecord(tmp_path / "kernels", "x"),
            event_log=event_log,
            place=lambda step: Progress(step=step, steps=100),
            clock=device.clock,
            **options,
        )
        return warming, event_log

    return build


def read(tmp_path):
    return [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]


def test_the_first_steps_are_a_phase_with_its_own_activity(warm_up, tmp_path):
    warming, event_log = warm_up(Device([60.0, 0.1, 0.1]))
    event_log.enter(Phase.TRAINING)
    step = 0
    while not warming.is_over:
        step += 1
        with warming.step(step):
            pass
    assert (step, warming.num_steps, warming.activity) == (3, 3, None)
    assert warming.seconds == pytest.approx(60.2)
    phases = [e["data"]["phase"] for e in read(tmp_path) if e["kind"] == "phase"]
    assert phases == ["training", "warming", "training"]
    (progress,) = [e["data"] for e in read(tmp_path) if e["kind"] == "progress"]
    assert progress["activity"].startswith("tuning kernels for the first run on this GPU")
    (message,) = [e["data"]["text"] for e in read(tmp_path) if e["kind"] == "message"]
    assert message == (
        "warm after 3 steps (60 s): the first took 60000 ms, now each takes 100.0 ms"
    )
    assert set(event_log.seconds) == {"training", "warming"}
    again, _ = warm_up(Device([0.1]))
    assert "tuned earlier; took about 60 s last time" in again.activity


def test_a_long_step_is_reported_as_still_running(warm_up, tmp_path):
    said = threading.Event()

    class Slow(Device):
        def synchronize(self):
            self.now = 30.0
            assert said.wait(60)

    device = Slow([])
    warming, event_log = warm_up(device, beat_seconds=0.01)
    write = event_log.write

    def listen(kind, **data):
        write(kind, **data)
        if "(30 s so far)" in (data.get("activity") or ""):
            said.set()

    event_log.write = listen
    with warming.step(1):
        pass
    assert warming.seconds == 30.0
    assert not [t for t in threading.enumerate() if t.name == "first-steps"]


def test_a_step_that_fails_leaves_no_thread_behind(warm_up):
    warming, _ = warm_up(Device([1.0]))
    with pytest.raises(torch.OutOfMemoryError), warming.step(1):
        raise torch.OutOfMemoryError("x")
    assert not [t for t in threading.enumerate() if t.name == "first-steps"]
