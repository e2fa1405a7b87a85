"""A trainer process that decodes its images while it trains, with child processes."""

import os
import signal

import psutil
import pytest

from tests.integration.trainer.runs import PATIENCE_SECONDS, TRAINER, step_of, write_job
from tests.waiting import is_alive, wait_for
from worker.jobdir import EXIT_STOPPED

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory):
    """Without decoded sets, which the trainers of other tests leave."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def trainer(tmp_path, start_warm, cache_dir):
    """Starts a long job whose worker has no room for decoded images, in a separate group."""
    spec = {
        "task": "image-classification",
        "dataset": "builtin:digits",
        "training": {"batch_size": 32, "epochs": 5000, "compile": "off"},
    }
    job_dir = write_job(tmp_path / "packed", spec, cache_dir=str(cache_dir), decoded_bytes=0)
    return start_warm(*TRAINER, job_dir.root), job_dir


def wait_for_steps(child, job_dir):
    def has_made_steps():
        assert child.poll() is None, "the trainer ended by itself"
        return step_of(job_dir) > 3

    wait_for(has_made_steps, seconds=PATIENCE_SECONDS)


def wait_until_gone(processes):
    wait_for(lambda: not any(is_alive(process.pid) for process in processes), seconds=20)


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


def test_a_killed_decoding_process_fails_the_job_with_a_clear_error(trainer):
    child, job_dir = trainer
    wait_for_steps(child, job_dir)
    psutil.Process(child.pid).children()[0].kill()
    assert child.wait(timeout=60) != 0
    assert "a process that decodes images ended with status -9" in job_dir.events_path.read_text()
