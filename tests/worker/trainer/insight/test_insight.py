import time

import pytest
import torch

from redkiln.failure import FailureCode
from redkiln.status import Phase
from worker.checkpoints.checkpoint import CheckpointStore
from worker.export.card.efficiency_section import render_efficiency
from worker.jobdir import LocalDataset
from worker.process.failed import TrainingFailed
from worker.results.trained import Trained
from worker.tasks.train import run_job
from worker.trainer.autotune import bare_step
from worker.trainer.autotune.bare_step import NUM_CHUNKS
from worker.trainer.insight.insight import Insight
from worker.trainer.insight.preview import PreviewBudget, Previewer, write_preview
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


def test_progress_reports_memory_and_waiting_as_series_too(make_job, start, events):
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
    # A CPU has no separate phase of first steps.
    assert "warming" not in [e["data"]["phase"] for e in events(job_dir, "phase")]


@pytest.mark.usefixtures("_always_show")
@pytest.mark.parametrize("validation_fraction", [0.1, 0.0])
@pytest.mark.parametrize("ema", [None, 0.9])
def test_sample_predictions_do_not_change_the_training(
    make_job, start, losses, validation_fraction, ema, monkeypatch
):
    training = {"validation_fraction": validation_fraction, "ema": ema}
    shown = make_job("shown", training=training)
    loop, _ = start(shown)
    loop.run()
    assert list(shown.preview_dir.glob("*.png"))
    monkeypatch.setattr(Previewer, "is_due", lambda *_, **__: False)
    plain = make_job("plain", training=training)
    start(plain)[0].run()
    assert not plain.preview_dir.exists()
    assert losses(shown) == losses(plain)
    ours, theirs = final_weights(shown), final_weights(plain)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_the_end_of_a_training_is_shown_whatever_previews_cost(make_job, start, monkeypatch):
    monkeypatch.setattr(PreviewBudget, "allows", lambda *_, **__: False)
    job_dir = make_job(training={"epochs": 3})
    loop, _ = start(job_dir)
    loop.run()
    assert [path.stem for path in job_dir.preview_dir.iterdir()] == [f"step-{loop.step:012d}"]
    assert loop.newest_preview.step == loop.step


def test_samples_that_do_not_fit_into_memory_are_no_fault(make_job, start, events, monkeypatch):
    def run_out(*_):
        raise torch.OutOfMemoryError("HIP out of memory")

    monkeypatch.setattr(Previewer, "make", run_out)
    job_dir = make_job()
    start(job_dir)[0].run()
    assert not [one for one in events(job_dir, "warning") if one["data"]["code"] == "no_preview"]
    said = [one["data"]["text"] for one in events(job_dir, "message")]
    assert "sample predictions are left out: not enough memory" in said


@pytest.mark.usefixtures("_always_show")
def test_a_preview_is_of_the_validation_split_and_named_by_progress(make_job, start, events, tiny):
    job_dir = make_job()
    loop, setup = start(job_dir)
    loop.run()
    note = events(job_dir, "progress")[-1]["data"]["preview"]
    assert (job_dir.preview_dir / note["file"]).read_bytes().startswith(b"\x89PNG")
    assert note["step"] == loop.step
    assert note["num"] == setup.counts["validation"]
    shown = setup.preview()
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
    assert "sample predictions cannot be shown" in warning["message"]


@pytest.mark.usefixtures("_always_show")
def test_unreadable_samples_do_not_fail_the_job(make_job, start, events):
    job_dir = make_job()
    loop, setup = start(job_dir)

    def fail():
        raise TrainingFailed(FailureCode.BAD_INPUT, "an image is not one any more")

    loop._insight._previewer = Previewer(fail, job_dir.preview_dir)
    loop.run()
    assert loop.step == setup.plan.steps
    said = [e["data"]["message"] for e in events(job_dir, "warning")]
    assert "sample predictions cannot be shown: an image is not one any more" in said


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
    assert found.bare_share > 0
    assert found.peak_share is None
    assert found.facts.why_no_peak == "the peak of a CPU is unknown"
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


def test_all_time_before_the_first_step_counts_as_start(make_job, start, pass_time):
    began = time.perf_counter()
    loop, setup = start(make_job())
    # Time that trials spend on batches does not count towards training either.
    setup.batches.pace.making_seconds += 50.0
    loop._event_log.enter(Phase.REHEARSING)
    pass_time(1000.0)
    loop.run()
    found = loop.efficiency
    assert found.verdict.startswith("100% of the time went into preparation before training; ")
    seconds = found.facts.seconds
    assert sum(seconds.values()) == pytest.approx(time.perf_counter() - began, abs=0.2)
    assert seconds["steps"] > 0


def test_a_resumed_run_accounts_only_for_its_own_time(make_job, start, pass_time):
    first, _ = start(make_job(training={"on_divergence": "rollback"}))
    first._event_log.enter(Phase.REHEARSING)
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


def test_measuring_does_not_change_the_exported_model(make_job, monkeypatch):
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
def test_a_failed_measurement_does_not_lose_a_finished_training(make_job, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(bare_step, "measure", fail)
    job_dir = make_job()
    assert run_job(job_dir, Never()) == 0
    trained = Trained.model_validate_json(job_dir.trained_path.read_bytes())
    assert "the disk is away" in trained.efficiency.facts.why_not_bare


@pytest.mark.usefixtures("_always_measure")
def test_running_out_of_memory_while_measuring_only_omits_the_measurement(
    make_job, start, events, run_out_of_memory
):
    job_dir = make_job()
    loop, setup = start(job_dir)
    run_out_of_memory(setup.model, limit=4, from_call=setup.plan.steps + 1)
    loop.run()
    assert loop.efficiency.facts.why_not_bare == "memory ran out"
    assert events(job_dir, "warning") == []
    assert len(events(job_dir, "resolved")) == 1
    assert setup.spec.training.accumulation == 1


def test_a_short_job_is_not_measured_and_says_so(make_job):
    job_dir = make_job()
    run_job(job_dir, Never())
    trained = Trained.model_validate_json(job_dir.trained_path.read_bytes())
    assert trained.efficiency.bare_share is None
    assert "too short" in trained.efficiency.facts.why_not_bare


def test_a_job_without_steps_in_this_attempt_is_not_judged(make_job):
    job_dir = make_job()
    run_job(job_dir, Never())
    last = Trained.model_validate_json(job_dir.trained_path.read_bytes()).last
    again = make_job(order={"resume": last})
    assert run_job(again, Never()) == 0
    trained = Trained.model_validate_json(again.trained_path.read_bytes())
    assert trained.efficiency is None


@pytest.mark.parametrize(
    ("dataset", "task"),
    [("breast-cancer", "tabular-classification"), ("diabetes", "tabular-regression")],
)
def test_tables_are_shown_as_tables(make_job, start, dataset, task):
    local = LocalDataset(name=f"builtin:{dataset}", kind="builtin", fingerprint=dataset)
    job_dir = make_job(dataset=local, task=task, model={"name": "mlp"})
    _, setup = start(job_dir)
    shown = setup.preview()
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


def test_the_first_steps_on_a_gpu_are_a_phase_of_the_job(
    make_job, start, events, losses, monkeypatch
):
    training = {"epochs": 5}  # longer than the first steps, however uneven they are
    plain = make_job("plain", training=training)
    start(plain)[0].run()

    def build(insight, _order):
        return Warming(
            synchronize=lambda: None,
            record=FirstStepsRecord(None, "x"),
            event_log=insight._event_log,
            place=insight._place,
        )

    monkeypatch.setattr(Insight, "_build_warming", build)
    job_dir = make_job("warmed", training=training)
    loop, _ = start(job_dir)
    loop.run()
    assert losses(job_dir) == losses(plain)
    phases = [e["data"]["phase"] for e in events(job_dir, "phase")]
    assert phases[:3] == ["preparing", "training", "warming"]
    assert "warming" not in phases[3:]
    told = [e["data"]["activity"] for e in events(job_dir, "progress")]
    assert told[0].startswith("tuning kernels for the first run on this GPU")
    assert told[-1] is None
    found = loop.efficiency
    assert found.facts.seconds["first steps"] > 0
    assert 3 <= loop.step - found.facts.num_steps <= 20
