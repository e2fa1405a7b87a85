import gzip
import json
import time

import pytest
import torch

from redkiln.failure import FailureCode
from redkiln.job import Phase
from worker.export.efficiency_section import render_efficiency
from worker.jobdir import LocalDataset
from worker.trainer.checkpoint import CheckpointStore
from worker.trainer.failed import TrainingFailed
from worker.trainer.insight.insight import Insight
from worker.trainer.insight.pace import Pace
from worker.trainer.insight.preview import PreviewBudget, Previewer, write_preview
from worker.trainer.insight.profiling import (
    ACTIVE_STEPS,
    WAIT_STEPS,
    WARM_UP_STEPS,
    StepProfiler,
    is_time,
)
from worker.trainer.insight.vitals import (
    WaitMeter,
    find_total_bytes,
    read_memory,
    read_process_memory,
    share_waited,
)
from worker.trainer.plan import Plan
from worker.trainer.run import run_job
from worker.trainer.speed import Speed
from worker.trainer.trained import Trained
from worker.trainer.trials import bare_step
from worker.trainer.trials.bare_step import NUM_CHUNKS, measure, plan_steps
from worker.trainer.warming import FirstStepsRecord, Warming


class Never:
    requested = False

    def deferred(self):
        import contextlib

        return contextlib.nullcontext()


@pytest.fixture
def _always_show(monkeypatch):
    """Previews cost what they cost."""
    monkeypatch.setattr(PreviewBudget, "allows", lambda *_, **__: True)


@pytest.fixture
def _always_measure(monkeypatch):
    """A bare step is measured however short the training was."""
    monkeypatch.setattr(bare_step, "plan_steps", lambda **_: 2 * NUM_CHUNKS)


def final_weights(job_dir):
    store = CheckpointStore(job_dir.checkpoints_dir)
    return store.load(store.manifests()[-1].name).tensors_of("model")


def losses_of(events, job_dir):
    points = [e["data"]["points"].get("train/loss", []) for e in events(job_dir, "metrics")]
    return [tuple(point) for some in points for point in some]


def test_progress_tells_memory_and_waiting_and_they_become_series(make_job, start, events):
    job_dir = make_job()
    loop, _ = start(job_dir)
    loop.run()
    told = events(job_dir, "progress")[-1]["data"]
    assert 0 <= told["data_wait_ratio"] <= 1
    assert 10**7 < told["memory_used_bytes"] <= told["memory_peak_bytes"]
    assert told["memory_peak_bytes"] < told["memory_total_bytes"]
    assert told["host_peak_bytes"] >= told["memory_used_bytes"]
    # 60 training and 18 test images.
    assert told["data_bytes"] == 78 * 12 * 12 * 3
    names = {name for e in events(job_dir, "metrics") for name in e["data"]["points"]}
    assert {"data_wait_ratio", "memory_used_bytes", "samples_per_second"} <= names
    # A CPU has no first steps of its own.
    assert "warming" not in [e["data"]["phase"] for e in events(job_dir, "phase")]


@pytest.mark.usefixtures("_always_show")
@pytest.mark.parametrize("validation_fraction", [0.1, 0.0])
@pytest.mark.parametrize("ema", [None, 0.9])
def test_sample_predictions_change_no_number(
    make_job, start, events, validation_fraction, ema, monkeypatch
):
    training = {"validation_fraction": validation_fraction, "ema": ema}
    shown = make_job("shown", training=training)
    loop, _ = start(shown)
    loop.run()
    assert list(shown.preview_dir.glob("*.png"))
    monkeypatch.setattr(PreviewBudget, "allows", lambda *_, **__: False)
    plain = make_job("plain", training=training)
    start(plain)[0].run()
    assert not plain.preview_dir.exists()
    assert losses_of(events, shown) == losses_of(events, plain)
    ours, theirs = final_weights(shown), final_weights(plain)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.usefixtures("_always_show")
def test_a_preview_is_of_the_validation_split_and_named_by_progress(make_job, start, events, tiny):
    job_dir = make_job()
    loop, work = start(job_dir)
    loop.run()
    note = events(job_dir, "progress")[-1]["data"]["preview"]
    assert (job_dir.preview_dir / note["file"]).read_bytes().startswith(b"\x89PNG")
    assert note["step"] == loop.step
    assert note["num"] == work.counts["validation"]
    shown = work.preview()
    assert {sample.truth for sample in shown} <= set(tiny.index.classes)
    assert all(0 < sample.confidence <= 1 for sample in shown)
    assert all(sample.is_right == (sample.truth == sample.predicted) for sample in shown)
    assert shown[0].image.shape == (12, 12, 3)
    assert shown[0].image.max() > 100


@pytest.mark.usefixtures("_always_show")
def test_a_preview_that_fails_is_a_warning_once(make_job, start, events):
    job_dir = make_job()
    job_dir.preview_dir.write_text("a file where the folder should be")
    loop, _ = start(job_dir)
    loop.run()
    (warning,) = [
        e["data"] for e in events(job_dir, "warning") if e["data"]["code"] == "no_preview"
    ]
    assert "sample predictions are not shown" in warning["message"]


@pytest.mark.usefixtures("_always_show")
def test_samples_that_cannot_be_read_end_no_job(make_job, start, events):
    job_dir = make_job()
    loop, work = start(job_dir)

    def fail():
        raise TrainingFailed(FailureCode.BAD_INPUT, "an image is not one any more")

    loop._insight._previewer = Previewer(fail, job_dir.preview_dir)
    loop.run()
    assert loop.step == work.plan.steps
    said = [e["data"]["message"] for e in events(job_dir, "warning")]
    assert "sample predictions are not shown: an image is not one any more" in said


@pytest.mark.parametrize("error", [OSError("no space left"), RuntimeError("no trace\nat all")])
def test_a_profile_that_cannot_be_written_ends_no_job(make_job, start, events, monkeypatch, error):
    def fail(_self, _recorded):
        raise error

    monkeypatch.setattr(StepProfiler, "_write_trace", fail)
    job_dir = make_job(training={"epochs": 3, "profile": True})
    loop, work = start(job_dir)
    loop.run()
    assert loop.step == work.plan.steps
    said = [e["data"]["text"] for e in events(job_dir, "message")]
    first = str(error).partition("\n")[0]
    assert f"the profile is left out: {first}" in said


def test_a_profile_is_left_beside_an_unchanged_training(make_job, start, events):
    plain = make_job("plain", training={"epochs": 3})
    start(plain)[0].run()
    job_dir = make_job("profiled", training={"epochs": 3, "profile": True})
    loop, _ = start(job_dir)
    loop.run()
    assert losses_of(events, job_dir) == losses_of(events, plain)
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
def test_a_profile_begins_where_most_of_its_steps_are_of_one_epoch(steps, steps_per_epoch, begins):
    plan = Plan(steps_per_epoch, steps)
    found = [n for n in range(WAIT_STEPS + 1, steps + 1) if is_time(n, plan)]
    assert (found[0] if found else None) == begins


def traced(job_dir):
    """Names of all that a profile's trace has."""
    with gzip.open(job_dir.extra_dir / "trace.json.gz") as file:
        return [event.get("name", "") for event in json.load(file)["traceEvents"]]


def test_a_profile_is_of_steps_alone(make_job, start):
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


def test_a_job_that_ends_within_the_window_leaves_what_it_has(make_job, start, events):
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
    said = [e["data"]["text"] for e in events(job_dir, "message")]
    assert sum(text.startswith("nothing was profiled: ") for text in said) == 1


def test_a_window_that_ends_in_its_warm_up_begins_anew(make_job, start, events):
    job_dir = make_job(training={"epochs": None, "steps": 18, "batch_size": 2, "profile": True})
    loop, _ = start(job_dir)
    loop.advance(WAIT_STEPS + 1)
    loop._saving.is_due_at = 0.0
    loop.run()
    assert f"Profile of {ACTIVE_STEPS} " in (job_dir.extra_dir / "profile.md").read_text()
    assert not any("nothing" in e["data"]["text"] for e in events(job_dir, "message"))


@pytest.mark.usefixtures("_always_measure")
def test_a_finished_job_is_judged(make_job):
    job_dir = make_job()
    assert run_job(job_dir, Never()) == 0
    trained = Trained.model_validate_json(job_dir.trained_path.read_bytes())
    found = trained.efficiency
    assert found.facts.num_steps == trained.steps
    assert found.facts.bare_step_seconds > 0
    # Convolutions and the last layer, forwards and backwards, of a batch of eight.
    assert found.facts.flops_per_step > 10**6
    assert 0 < found.bare_share < 2
    assert found.peak_share is None
    assert found.facts.why_no_peak == "the peak of a CPU is not known"
    assert {"start", "steps", "checkpoints", "evaluation"} <= set(found.facts.seconds)
    assert "## Efficiency" in render_efficiency(found)


@pytest.fixture
def pass_time(monkeypatch):
    """Lets seconds pass that nobody waits for."""
    ahead, now = [0.0], time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: now() + ahead[0])

    def call(seconds):
        ahead[0] += seconds

    return call


def test_all_that_comes_before_the_first_step_is_getting_ready(make_job, start, pass_time):
    began = time.perf_counter()
    loop, work = start(make_job())
    # What trials make of batches is none of training's either.
    work.batches.pace.making_seconds += 50.0
    loop._report.enter(Phase.REHEARSING)
    pass_time(100.0)
    loop.run()
    found = loop.efficiency
    assert found.verdict == "100% of the time went into getting ready to train"
    seconds = found.facts.seconds
    assert sum(seconds.values()) == pytest.approx(time.perf_counter() - began, abs=0.2)
    assert seconds["steps"] > 0


def test_a_run_that_goes_on_accounts_for_its_own_time_alone(make_job, start, pass_time):
    first, _ = start(make_job(training={"on_divergence": "rollback"}))
    first._report.enter(Phase.REHEARSING)
    pass_time(100.0)
    first.advance(6)
    (_, newest) = CheckpointStore(make_job().checkpoints_dir).manifests()
    began = time.perf_counter()
    loop, _ = start(make_job(order={"resume": newest.name}))
    pass_time(10.0)
    loop.run()
    seconds = loop.efficiency.facts.seconds
    assert sum(seconds.values()) == pytest.approx(time.perf_counter() - began, abs=0.2)
    assert 10 < seconds["start"] < 11


def test_measuring_changes_nothing_that_is_exported(make_job, monkeypatch):
    plain = make_job("plain")
    run_job(plain, Never())
    monkeypatch.setattr(bare_step, "plan_steps", lambda **_: 2 * NUM_CHUNKS)
    measured = make_job("measured")
    run_job(measured, Never())
    ours, theirs = final_weights(measured), final_weights(plain)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.usefixtures("_always_measure")
@pytest.mark.parametrize(
    "error",
    [
        TrainingFailed(FailureCode.DATASET_UNAVAILABLE, "the disk is away"),
        OSError("the disk is away"),
        RuntimeError("the disk is away"),
    ],
)
def test_a_finished_training_is_not_lost_by_measuring(make_job, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(bare_step, "measure", fail)
    job_dir = make_job()
    assert run_job(job_dir, Never()) == 0
    trained = Trained.model_validate_json(job_dir.trained_path.read_bytes())
    assert "the disk is away" in trained.efficiency.facts.why_not_bare


@pytest.mark.usefixtures("_always_measure")
def test_memory_that_runs_out_while_measuring_leaves_the_measurement_out_and_changes_nothing(
    make_job, start, events, run_out_of_memory
):
    job_dir = make_job()
    loop, work = start(job_dir)
    run_out_of_memory(work.model, limit=4, from_call=work.plan.steps + 1)
    loop.run()
    assert loop.efficiency.facts.why_not_bare == "memory ran out"
    assert events(job_dir, "warning") == []
    assert len(events(job_dir, "resolved")) == 1
    assert work.spec.training.accumulation == 1


def test_a_short_job_is_not_measured_and_says_so(make_job):
    job_dir = make_job()
    run_job(job_dir, Never())
    trained = Trained.model_validate_json(job_dir.trained_path.read_bytes())
    assert trained.efficiency.bare_share is None
    assert "too short" in trained.efficiency.facts.why_not_bare


def test_a_job_whose_steps_were_all_made_before_is_not_judged(make_job):
    job_dir = make_job()
    run_job(job_dir, Never())
    last = Trained.model_validate_json(job_dir.trained_path.read_bytes()).last
    again = make_job(order={"resume": last})
    assert run_job(again, Never()) == 0
    trained = Trained.model_validate_json(again.trained_path.read_bytes())
    assert trained.efficiency is None


@pytest.mark.parametrize(
    ("step_seconds", "training_seconds", "num"),
    [
        (0.01, 1.0, 0),
        (0.01, 10.0, 7),
        (0.01, 30.0, 27),
        (0.001, 3600.0, 2000),
        # Where steps are slow a few of them are enough, still within the hundredth.
        (1.0, 3600.0, 3),
        (1.0, 500.0, 0),
    ],
)
def test_measuring_takes_a_hundredth_of_the_time_and_two_seconds_at_most(
    step_seconds, training_seconds, num
):
    assert plan_steps(step_seconds=step_seconds, training_seconds=training_seconds) == num
    assert (num + 3) * step_seconds <= 0.01 * training_seconds or num == 0


def test_a_bare_step_is_the_median_of_its_chunks():
    now = [0.0]
    costs = iter([5.0, 5.0, *[1.0] * 4, *[9.0] * 2, *[1.0] * 4])

    def step():
        now[0] += next(costs)

    found = measure(step, num_steps=10, synchronize=lambda: None, clock=lambda: now[0])
    assert (found.seconds, found.num_steps, found.flops) == (1.0, 10, None)


@pytest.mark.parametrize(
    ("making", "waiting", "share"),
    [(0.0, 0.0, 0.0), (3.0, 0.0, 0.3), (3.0, 0.4, 0.3), (3.0, 5.0, 0.0), (20.0, 0.0, 1.0)],
)
def test_a_host_that_waits_for_the_device_has_its_batches_in_time(making, waiting, share):
    assert share_waited(making=making, waiting=waiting, seconds=10.0) == share


def test_waiting_is_told_of_the_time_since_the_last_look():
    pace = Pace()
    meter = WaitMeter(pace)
    assert meter.read(0.0) is None
    pace.making_seconds = 1.0
    assert meter.read(10.0) == 0.1
    assert meter.read(10.0) == 0.0


def test_memory_is_read_of_this_process():
    memory = read_memory(torch.device("cpu"))
    assert 0 < memory.used_bytes <= memory.peak_bytes < memory.total_bytes
    status = "Name:\tpython\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n"
    told = read_process_memory(status, total_bytes=None)
    assert (told.used_bytes, told.peak_bytes) == (2**20, 2**21)
    assert read_process_memory("Name:\tkthread\n", total_bytes=None) is None


@pytest.mark.parametrize(
    ("group", "host", "total"),
    [
        ("max\n", "MemTotal:  1024 kB\n", 2**20),
        ("524288\n", "MemTotal:  1024 kB\n", 2**19),
        (None, "MemTotal:  1024 kB\n", 2**20),
        (None, None, None),
    ],
)
def test_a_container_may_have_less_memory_than_its_host(tmp_path, group, host, total):
    files = (tmp_path / "group", tmp_path / "host")
    for path, content in zip(files, (group, host), strict=True):
        if content is not None:
            path.write_text(content)
    assert find_total_bytes(files=files) == total


@pytest.mark.parametrize(
    ("dataset", "task"),
    [("breast-cancer", "tabular-classification"), ("diabetes", "tabular-regression")],
)
def test_tables_are_shown_as_tables(make_job, start, dataset, task):
    local = LocalDataset(name=f"builtin:{dataset}", kind="builtin", fingerprint=dataset)
    job_dir = make_job(dataset=local, task=task, model={"name": "mlp"})
    _, work = start(job_dir)
    shown = work.preview()
    note = write_preview(shown, job_dir.preview_dir, step=1)
    text = (job_dir.preview_dir / note.file).read_text()
    assert note.media_type == "text/markdown"
    if task == "tabular-classification":
        assert {sample.truth for sample in shown} == {"benign", "malignant"}
        assert note.num_right == sum(sample.is_right for sample in shown)
        assert "mean radius" in text
    else:
        assert note.num_right is None
        # In the target's own unit.
        assert all(25 <= float(sample.truth) <= 346 for sample in shown)
        assert "| sample | true | predicted |" in text


def test_the_first_steps_on_a_gpu_are_a_phase_of_the_job(make_job, start, events, monkeypatch):
    training = {"epochs": 5}  # longer than the first steps, however uneven they are
    plain = make_job("plain", training=training)
    start(plain)[0].run()

    def build(insight, _order):
        return Warming(
            synchronize=lambda: None,
            record=FirstStepsRecord(None, "x"),
            report=insight._report,
            place=insight._place,
        )

    monkeypatch.setattr(Insight, "_build_warming", build)
    job_dir = make_job("warmed", training=training)
    loop, _ = start(job_dir)
    loop.run()
    assert losses_of(events, job_dir) == losses_of(events, plain)
    phases = [e["data"]["phase"] for e in events(job_dir, "phase")]
    assert phases[:3] == ["preparing", "training", "warming"]
    assert "warming" not in phases[3:]
    told = [e["data"]["activity"] for e in events(job_dir, "progress")]
    assert told[0].startswith("tuning kernels for the first run on this GPU")
    assert told[-1] is None
    found = loop.efficiency
    assert found.facts.seconds["first steps"] > 0
    assert 3 <= loop.step - found.facts.num_steps <= 20


def test_steps_that_were_left_out_say_nothing_of_the_speed():
    speed = Speed()
    speed.begin(seconds=0.0)
    # Ten slow steps in a phase of their own, which took no training time.
    for _ in range(10):
        speed.leave_out(1, seconds=6.0)
    assert not speed.measure(10, seconds=0.0, batch_size=8)
    assert not speed.measure(11, seconds=0.1, batch_size=8)
    assert speed.measure(21, seconds=1.1, batch_size=8)
    assert speed.samples_per_second == pytest.approx(80)
