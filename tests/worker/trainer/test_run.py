import gc
import json

import pytest

from redkiln.views.job import Progress
from worker.jobdir import EXIT_DONE, EXIT_FAILED, LocalDataset
from worker.process.lifetime import StopSignal
from worker.tasks.train import run_job


def test_a_run_reports_its_events_in_order(make_job, events, tmp_path):
    job_dir = make_job(order={"cache_dir": str(tmp_path / "cache")})
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    phases = [e["data"]["phase"] for e in events(job_dir, "phase")]
    assert phases[:5] == ["preparing", "rehearsing", "training", "evaluating", "training"]
    kinds = [e["kind"] for e in events(job_dir)]
    assert kinds.index("resolved") < kinds.index("metrics")
    resolved = events(job_dir, "resolved")[0]["data"]
    assert "auto" not in json.dumps(resolved["spec"])
    assert resolved["environment"]["threads"] == 1
    last = Progress(**events(job_dir, "progress")[-1]["data"])
    assert (last.step, last.steps, last.epoch, last.epochs) == (12, 12, 2, 2)
    assert last.fraction == 1.0
    assert {"train/loss", "val/loss", "val/accuracy"} <= set(last.metrics)
    trained = json.loads(job_dir.trained_path.read_text())
    assert trained["counts"] == {"train": 54, "validation": 6, "test": 18}
    assert (job_dir.checkpoints_dir / trained["best"]).exists()
    assert not (job_dir.root / ".reserve").exists()


def test_the_collector_skips_what_a_job_is_made_of(make_job):
    gc.unfreeze()
    assert run_job(make_job(), StopSignal()) == EXIT_DONE
    assert gc.get_freeze_count() > 10_000


def test_a_known_architecture_is_not_rehearsed_again_and_trains_the_same(
    make_job, events, losses, tmp_path
):
    curves, rehearsed = [], []
    for name in ("rehearsed", "known"):
        job_dir = make_job(name, order={"cache_dir": str(tmp_path / "cache")})
        assert run_job(job_dir, StopSignal()) == EXIT_DONE
        curves.append(losses(job_dir))
        rehearsed.append("rehearsing" in [e["data"]["phase"] for e in events(job_dir, "phase")])
    assert rehearsed == [True, False]
    assert any("rehearsal skipped" in e["data"]["text"] for e in events(job_dir, "message"))
    assert curves[0] == curves[1]


def test_a_default_run_learns_digits(make_job, events):
    digits = LocalDataset(name="digits", kind="builtin", fingerprint="digits")
    job_dir = make_job(dataset=digits, training={"epochs": 10, "batch_size": "auto"})
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    assert json.loads(job_dir.trained_path.read_text())["metrics"]["val/accuracy"] >= 0.95


def test_a_batch_larger_than_the_data_gives_a_warning(make_job, events):
    job_dir = make_job(training={"batch_size": 500, "epochs": 1})
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    assert events(job_dir, "warning")[0]["data"]["code"] == "batch_size_reduced"


@pytest.mark.parametrize(("asked", "taken"), [("auto", 8), (500, 54)])
def test_more_micro_steps_than_samples_give_a_warning(make_job, start, events, asked, taken):
    job_dir = make_job(training={"batch_size": asked, "accumulation": 100})
    _, setup = start(job_dir)
    training = setup.spec.training
    assert (training.batch_size, training.accumulation) == (taken, taken)
    warnings = {e["data"]["code"]: e["data"]["message"] for e in events(job_dir, "warning")}
    assert warnings["accumulation_reduced"] == (
        f"accumulation is {taken}, not 100: a batch of {taken} cannot be split into more "
        "micro steps"
    )
    fitting = make_job("fitting", training={"batch_size": "auto", "accumulation": 2})
    start(fitting)
    assert events(fitting, "warning") == []


def test_a_spec_that_cannot_be_read_is_bad_input(make_job, events):
    job_dir = make_job(model={"name": "mnist-cm"})
    assert run_job(job_dir, StopSignal()) == EXIT_FAILED
    failure = events(job_dir)[-1]["data"]
    assert failure["code"] == "bad_input"
    assert "mnist-cnn" in failure["message"]


def test_a_missing_gpu_fails_as_no_gpu(make_job, events, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    job_dir = make_job(order={})
    order = json.loads(job_dir.order_path.read_text())
    job_dir.order_path.write_text(json.dumps({**order, "device": "cuda:0"}))
    assert run_job(job_dir, StopSignal()) == EXIT_FAILED
    failure = events(job_dir)[-1]["data"]
    assert (failure["code"], failure["retryable"]) == ("no_gpu", True)


def test_a_bug_leaves_its_traceback_in_the_log(make_job, events, monkeypatch, capfd):
    def fail(*_args, **_kwargs):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("worker.trainer.run.build_loop", fail)
    job_dir = make_job()
    assert run_job(job_dir, StopSignal()) == EXIT_FAILED
    assert events(job_dir)[-1]["data"]["code"] == "internal"
    assert "ZeroDivisionError: oops" in capfd.readouterr().err


def test_a_full_disk_fails_as_disk_full(make_job, events, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("worker.checkpoints.checkpoint.os.fsync", full)
    job_dir = make_job()
    assert run_job(job_dir, StopSignal()) == EXIT_FAILED
    failure = events(job_dir)[-1]["data"]
    assert (failure["code"], failure["retryable"]) == ("disk_full", True)
