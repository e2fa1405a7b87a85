"""Tables through the trainer and the export child, as processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from worker.jobdir import EXIT_DONE, EXIT_STOPPED, JobDir, LocalDataset, Order

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 240


@pytest.fixture
def make_job(tmp_path):
    def make(name, builtin, *, task, resume=None, **training):
        order = Order(
            job_id="job_1",
            job_name=name,
            attempt_id="att_1",
            spec={"task": task, "dataset": f"builtin:{builtin}", "training": training},
            dataset=LocalDataset(name=f"builtin:{builtin}", kind="builtin", fingerprint=builtin),
            device="cpu",
            threads=1,
            cache_dir=str(tmp_path / "cache"),
            progress_seconds=0.01,
            resume=resume,
        )
        job_dir = JobDir(tmp_path / name)
        job_dir.root.mkdir(exist_ok=True)
        job_dir.order_path.write_text(order.model_dump_json())
        return job_dir

    return make


@pytest.fixture
def start():
    children = []

    def run(module, job_dir):
        environment = {**os.environ, "REDKILN_PARENT_PID": str(os.getpid())}
        command = [sys.executable, "-m", module, str(job_dir.root)]
        children.append(subprocess.Popen(command, cwd=ROOT, env=environment))
        return children[-1]

    yield run
    for child in children:
        child.kill()
        child.wait()


def events(job_dir, kind):
    if not job_dir.events_path.exists():
        return []
    lines = job_dir.events_path.read_text().splitlines(keepends=True)
    found = [json.loads(line) for line in lines if line.endswith("\n")]
    return [event["data"] for event in found if event["kind"] == kind]


def losses(job_dir):
    points = {}
    for data in events(job_dir, "metrics"):
        points.update(dict(data["points"].get("train/loss", [])))
    return points


@pytest.mark.parametrize(
    ("task", "builtin", "metric", "least"),
    [
        ("tabular-classification", "breast-cancer", "test/accuracy", 0.96),
        ("tabular-regression", "diabetes", "test/r2", 0.3),
    ],
)
def test_a_builtin_table_becomes_a_verified_model(make_job, start, task, builtin, metric, least):
    job_dir = make_job("whole", builtin, task=task)
    assert start("worker.trainer", job_dir).wait(PATIENCE_SECONDS) == EXIT_DONE
    assert start("worker.export", job_dir).wait(PATIENCE_SECONDS) == EXIT_DONE
    (result,) = events(job_dir, "result")
    assert result["verified"] is True
    assert result["metrics"][metric] >= least
    assert len(job_dir.load_outputs()) == 9
    session = onnxruntime.InferenceSession(job_dir.out_dir / "model.onnx")
    (numbers,) = session.get_inputs()
    nothing = np.full((2, numbers.shape[1]), np.nan, np.float32)
    assert np.isfinite(session.run(None, {numbers.name: nothing})[0]).all()


def test_a_stopped_run_goes_on_as_if_it_had_not_been(make_job, start):
    options = {"task": "tabular-regression", "epochs": 40}
    straight = make_job("straight", "diabetes", **options)
    assert start("worker.trainer", straight).wait(PATIENCE_SECONDS) == EXIT_DONE

    stopped = make_job("stopped", "diabetes", **options)
    child = start("worker.trainer", stopped)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not events(stopped, "checkpoint"):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    child.send_signal(signal.SIGTERM)
    assert child.wait(PATIENCE_SECONDS) == EXIT_STOPPED
    newest = events(stopped, "checkpoint")[-1]
    resumed = make_job("stopped", "diabetes", resume=newest["file"], **options)
    assert start("worker.trainer", resumed).wait(PATIENCE_SECONDS) == EXIT_DONE
    assert losses(resumed) == losses(straight)
