import numpy as np
import pytest

from redkiln.tasks.script import Limits
from tests.worker.script.onnx_files import write_model
from worker.script.bounds.bounds import Bounds
from worker.script.results import models
from worker.script.results.models import check_models
from worker.script.results.results import Results


@pytest.fixture
def results(job_dir, paths, event_log):
    (paths.out_dir / "m.onnx").write_bytes(b"no model")
    results = Results(job_dir, paths.out_dir, event_log)
    results.look([], is_over=True)
    paths.prepare_tools()
    return results


@pytest.fixture
def bounds(paths):
    return Bounds(paths, Limits())


def test_an_invalid_model_is_reported_and_a_long_check_sends_heartbeats(
    results, bounds, event_log, events, monkeypatch, beat_at_once
):
    monkeypatch.setattr(models, "POLL_SECONDS", 0.01)
    verdicts = check_models(results, bounds, event_log)
    assert verdicts["m.onnx"].verified is False
    assert "m.onnx: it cannot be loaded" in events("warning")[0]["message"]
    assert events("message")[0]["text"].startswith("still checking the ONNX files after")


def test_a_file_not_checked_in_time_is_reported_as_unchecked(results, bounds, event_log, events):
    verdicts = check_models(results, bounds, event_log, seconds=0.01)
    assert verdicts["m.onnx"].verified is None
    assert [data["text"] for data in events("message")] == ["m.onnx: not checked within 0 s"]


def test_without_models_no_checker_is_started(job_dir, paths, event_log, bounds, monkeypatch):
    monkeypatch.setattr(models.subprocess, "Popen", None)
    assert check_models(Results(job_dir, paths.out_dir, event_log), bounds, event_log) == {}


def test_damaged_samples_of_one_file_do_not_affect_the_next(
    job_dir, paths, event_log, bounds, events
):
    for name in ("bad", "good"):
        write_model(paths.out_dir / f"{name}.onnx")
    (paths.out_dir / "bad.npz").write_bytes(b"PK\x03\x04 cut off")
    x = np.ones((2, 3), dtype=np.float32)
    np.savez(paths.out_dir / "good.npz", x=x, y=2 * x)
    results = Results(job_dir, paths.out_dir, event_log)
    results.look([], is_over=True)
    paths.prepare_tools()
    verdicts = check_models(results, bounds, event_log)
    assert {name: verdict.verified for name, verdict in verdicts.items()} == {
        "bad.onnx": False,
        "good.onnx": True,
    }
    (told,) = events("warning")
    assert "bad.onnx: not compared: bad.npz cannot be read" in told["message"]
    (passed,) = events("message")
    assert passed["text"] == (
        "good.onnx is verified: its outputs differ from its samples by at most 0.0e+00 of the "
        "largest value"
    )
