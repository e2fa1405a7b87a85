"""When training will be over, by a clock that a test sets."""

from types import SimpleNamespace

import pytest

from worker.trainer.loop import speed
from worker.trainer.loop.speed import Speed


@pytest.fixture
def clock(monkeypatch):
    """What the time is: its `now` is the test's to set."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(speed, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def time_left(measured, step, *, steps=100, steps_per_epoch=50):
    return measured.eta_seconds(step, steps=steps, steps_per_epoch=steps_per_epoch)


def test_the_estimate_assumes_remaining_steps_take_as_long_as_past_ones(clock):
    measured = Speed()
    measured.begin(seconds=0.0)
    clock.now += 5.0
    assert time_left(measured, 10) == pytest.approx(45.0)
    # Whatever passes between steps counts, and asking again to begin changes nothing.
    clock.now += 15.0
    measured.begin(seconds=20.0)
    assert time_left(measured, 20) == pytest.approx(80.0)
    assert time_left(measured, 100) == 0.0


def test_the_first_steps_alone_give_no_estimate(clock):
    measured = Speed()
    assert time_left(measured, 20) is None
    measured.begin(seconds=0.0)
    clock.now += 9.0
    assert time_left(measured, 9) is None
    # Of short epochs one is enough.
    assert time_left(measured, 3, steps_per_epoch=4) is None
    assert time_left(measured, 4, steps_per_epoch=4) is not None


def test_a_resumed_run_estimates_its_end_from_its_own_steps(clock):
    measured = Speed()
    measured.restart(60)
    measured.begin(seconds=1000.0)
    clock.now += 20.0
    assert time_left(measured, 69) is None
    assert time_left(measured, 70) == pytest.approx(60.0)


def test_excluded_steps_do_not_change_the_estimate(clock):
    measured = Speed()
    measured.begin(seconds=0.0)
    clock.now += 10.0
    assert time_left(measured, 10) == pytest.approx(90.0)
    clock.now += 300.0
    measured.leave_out(5, seconds=300.0)
    assert time_left(measured, 15) == pytest.approx(85.0)


def test_progress_reports_the_remaining_time(make_job, start, events, monkeypatch):
    job_dir = make_job()
    loop, _ = start(job_dir)
    # Each step takes two seconds.
    clock = SimpleNamespace(perf_counter=lambda: 2.0 * loop.step)
    monkeypatch.setattr(speed, "time", clock)
    loop.run()
    said = {e["data"]["step"]: e["data"]["eta_seconds"] for e in events(job_dir, "progress")}
    # The kernels' warming speaks before the first step where a process does it for the first time.
    said.pop(0, None)
    assert said == {step: None if step < 6 else 2.0 * (12 - step) for step in range(1, 13)}


def test_excluded_steps_do_not_count_towards_the_speed():
    speed = Speed()
    speed.begin(seconds=0.0)
    # Ten slow steps in a separate phase, which took no training time.
    for _ in range(10):
        speed.leave_out(1, seconds=6.0)
    assert not speed.measure(10, seconds=0.0, batch_size=8)
    assert not speed.measure(11, seconds=0.1, batch_size=8)
    assert speed.measure(21, seconds=1.1, batch_size=8)
    assert speed.samples_per_second == pytest.approx(80)
