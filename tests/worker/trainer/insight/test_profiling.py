import gzip
import json

import pytest

from worker.trainer.insight.profiling import (
    ACTIVE_STEPS,
    CUT_SHORT,
    TOO_SHORT,
    WAIT_STEPS,
    WARM_UP_STEPS,
    StepProfiler,
    is_time,
)
from worker.trainer.plan import Plan


def traced(job_dir):
    """Names of all that a profile's trace has."""
    with gzip.open(job_dir.extra_dir / "trace.json.gz") as file:
        return [event.get("name", "") for event in json.load(file)["traceEvents"]]


def nothing_said(messages):
    """Return the messages about a profile that was not written."""
    said = [message["data"]["text"] for message in messages]
    return [text for text in said if "nothing was profiled" in text]


def test_a_profile_does_not_change_the_training(make_job, start, events, losses):
    plain = make_job("plain", training={"epochs": 3})
    start(plain)[0].run()
    job_dir = make_job("profiled", training={"epochs": 3, "profile": True})
    loop, _ = start(job_dir)
    loop.run()
    assert losses(job_dir) == losses(plain)
    names = traced(job_dir)
    assert names.count("step") == ACTIVE_STEPS
    assert any("conv" in name for name in names)
    table = (job_dir.extra_dir / "profile.md").read_text()
    assert f"Profile of {ACTIVE_STEPS} training steps on cpu" in table
    assert "conv" in table
    assert "ProfilerStep" not in table
    phases = [e["data"]["phase"] for e in events(job_dir, "phase")]
    assert phases.count("measuring") >= 1
    assert loop.step > WAIT_STEPS + WARM_UP_STEPS + ACTIVE_STEPS


@pytest.mark.parametrize(
    ("steps", "steps_per_epoch", "begins"),
    [
        (1000, 100, 6),
        # An evaluation would come within it.
        (1000, 10, 11),
        (1000, 11, 6),
        # No epoch is long enough: the longest piece of one.
        (12, 6, 7),
        (100, 5, 6),
        (9, 6, 7),
        (9, 100, 6),
        # An epoch's rest is longer than what comes after it.
        (13, 9, 6),
        # Nothing but a warm-up would fit.
        (7, 100, None),
        (5, 5, None),
        (100, 2, None),
    ],
)
def test_a_profile_starts_where_most_of_its_steps_are_in_one_epoch(steps, steps_per_epoch, begins):
    plan = Plan(steps_per_epoch, steps)
    found = [n for n in range(WAIT_STEPS + 1, steps + 1) if is_time(n, plan)]
    assert (found[0] if found else None) == begins


def test_a_profile_contains_only_steps(make_job, start):
    # A checkpoint copies and synchronises, an evaluation scores: neither is a part of a step.
    evaluated, undisturbed, saved = (
        make_job(name, training={"profile": True, "epochs": epochs, "steps": steps, **settings})
        for name, epochs, steps, settings in (
            ("evaluated", 4, None, {"batch_size": 7}),
            ("undisturbed", None, 18, {"batch_size": 2}),
            ("saved", None, 18, {"batch_size": 2}),
        )
    )
    start(evaluated)[0].run()
    start(undisturbed)[0].run()
    loop, _ = start(saved)
    loop.advance(WAIT_STEPS + WARM_UP_STEPS + 2)
    loop._saving.is_due_at = 0.0
    loop.run()
    for job_dir, steps in ((evaluated, ACTIVE_STEPS), (undisturbed, ACTIVE_STEPS), (saved, 3)):
        table = (job_dir.extra_dir / "profile.md").read_text()
        assert f"Profile of {steps} training steps" in table
        names = traced(job_dir)
        for operation in ("aten::_log_softmax", "aten::_log_softmax_backward_data"):
            assert names.count(operation) == steps
        assert "aten::isfinite" not in names


def test_a_job_that_ends_within_the_window_writes_a_shorter_profile(make_job, start, events):
    job_dir = make_job(
        training={
            "epochs": None,
            "steps": WAIT_STEPS + WARM_UP_STEPS + 2,
            "batch_size": 2,
            "profile": True,
        }
    )
    start(job_dir)[0].run()
    assert "Profile of 2 training steps" in (job_dir.extra_dir / "profile.md").read_text()


@pytest.mark.parametrize("steps", [2, WAIT_STEPS, WAIT_STEPS + 1])
def test_a_job_too_short_for_a_profile_says_so(make_job, start, events, steps):
    job_dir = make_job(training={"epochs": None, "steps": steps, "profile": True})
    loop, _ = start(job_dir)
    loop.run()
    assert not job_dir.extra_dir.exists()
    assert nothing_said(events(job_dir, "message")) == [TOO_SHORT]


def test_a_window_that_ends_in_its_warm_up_starts_again(make_job, start, events):
    job_dir = make_job(training={"epochs": None, "steps": 18, "batch_size": 2, "profile": True})
    loop, _ = start(job_dir)
    loop.advance(WAIT_STEPS + 1)
    loop._saving.is_due_at = 0.0
    loop.run()
    assert f"Profile of {ACTIVE_STEPS} " in (job_dir.extra_dir / "profile.md").read_text()
    assert not any("nothing" in e["data"]["text"] for e in events(job_dir, "message"))


@pytest.mark.parametrize(("steps_between", "profiled"), [(1, 3), (2, 5)])
def test_profiling_is_given_up_after_too_many_checkpoints(
    make_job, start, events, steps_between, profiled
):
    steps = 40
    job_dir = make_job(training={"epochs": None, "steps": steps, "batch_size": 1, "profile": True})
    loop, _ = start(job_dir)
    while loop.advance(steps_between):
        loop._saving.is_due_at = 0.0
        loop._keep_books()
    loop.run()
    assert not job_dir.extra_dir.exists()
    assert nothing_said(events(job_dir, "message")) == [CUT_SHORT]
    assert "training.checkpoint_seconds" in CUT_SHORT
    # Those after the last window count in the figures again.
    assert loop.efficiency.facts.num_steps == steps - profiled


def test_a_window_ended_by_a_checkpoint_is_reported_as_the_reason(make_job, start, events):
    steps = WAIT_STEPS + WARM_UP_STEPS + 1
    job_dir = make_job(training={"epochs": None, "steps": steps, "batch_size": 2, "profile": True})
    loop, _ = start(job_dir)
    loop.advance(WAIT_STEPS + 1)
    loop._saving.is_due_at = 0.0
    loop.run()
    assert nothing_said(events(job_dir, "message")) == [CUT_SHORT]


@pytest.mark.parametrize("error", [OSError("no space left"), RuntimeError("no trace\nat all")])
def test_an_unwritable_profile_does_not_fail_the_job(make_job, start, events, monkeypatch, error):
    def fail(_self, _recorded):
        raise error

    monkeypatch.setattr(StepProfiler, "_write_trace", fail)
    job_dir = make_job(training={"epochs": 3, "profile": True})
    loop, setup = start(job_dir)
    loop.run()
    assert loop.step == setup.plan.steps
    said = [e["data"]["text"] for e in events(job_dir, "message")]
    first = str(error).partition("\n")[0]
    assert f"the profile could not be written: {first}" in said
