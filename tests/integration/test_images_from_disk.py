"""A trainer process that decodes its images while it trains, with children of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from worker.jobdir import EXIT_STOPPED, JobDir, LocalDataset, Order

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 180


@pytest.fixture
def trainer(tmp_path):
    """Starts a long job whose worker has no room for decoded images, in a group of its own."""
    order = Order(
        job_id="job_1",
        job_name="packed",
        attempt_id="att_1",
        spec={
            "task": "image-classification",
            "dataset": "builtin:digits",
            "training": {"batch_size": 32, "epochs": 5000, "compile": "off"},
        },
        dataset=LocalDataset(name="digits", kind="builtin", fingerprint="digits"),
        device="cpu",
        threads=1,
        cache_dir=str(tmp_path / "cache"),
        decoded_bytes=0,
        progress_seconds=0.05,
    )
    job_dir = JobDir(tmp_path / "job")
    job_dir.root.mkdir()
    job_dir.order_path.write_text(order.model_dump_json())
    child = subprocess.Popen(
        [sys.executable, "-m", "worker.trainer", str(job_dir.root)],
        cwd=ROOT,
        env={**os.environ, "REDKILN_PARENT_PID": str(os.getpid())},
        start_new_session=True,
    )
    yield child, job_dir
    child.kill()
    child.wait()


def wait_for_steps(child, job_dir):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        assert child.poll() is None, "the trainer ended by itself"
        if job_dir.events_path.exists():
            lines = job_dir.events_path.read_text().splitlines(keepends=True)
            found = [json.loads(line) for line in lines if line.endswith("\n")]
            if any(event["data"].get("step", 0) > 3 for event in found):
                return
        time.sleep(0.05)
    raise AssertionError("no step was made")


def wait_until_gone(processes):
    deadline = time.monotonic() + 20
    while any(process.is_running() and process.status() != "zombie" for process in processes):
        assert time.monotonic() < deadline, "a decoding process is left"
        time.sleep(0.02)


def test_a_stop_of_the_whole_group_makes_a_checkpoint_and_leaves_no_process(trainer):
    child, job_dir = trainer
    wait_for_steps(child, job_dir)
    decoders = psutil.Process(child.pid).children()
    assert decoders
    os.killpg(child.pid, signal.SIGTERM)
    assert child.wait(timeout=60) == EXIT_STOPPED
    assert list(job_dir.checkpoints_dir.glob("*.safetensors"))
    wait_until_gone(decoders)


def test_decoding_processes_end_with_a_killed_trainer(trainer):
    child, job_dir = trainer
    wait_for_steps(child, job_dir)
    decoders = psutil.Process(child.pid).children()
    child.kill()
    child.wait()
    wait_until_gone(decoders)


def test_a_decoding_process_that_is_killed_ends_the_job_with_a_word(trainer):
    child, job_dir = trainer
    wait_for_steps(child, job_dir)
    psutil.Process(child.pid).children()[0].kill()
    assert child.wait(timeout=60) != 0
    assert "a decoding process has ended with status -9" in job_dir.events_path.read_text()
