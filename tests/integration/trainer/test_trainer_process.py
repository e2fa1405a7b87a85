"""The trainer and the export as real processes."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.library import Faults, compile_library
from tests.integration.conftest import ROOT
from tests.integration.trainer.runs import (
    EXPORT,
    PATIENCE_SECONDS,
    TRAINER,
    events,
    losses,
    run_here,
    step_of,
    write_job,
)
from tests.waiting import is_alive, wait_for
from worker.jobdir import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED, EXPORTER_VARIABLE

# All of them in one group, which shares the uninterrupted run and the forks.
pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("shared_trainer")]


@pytest.fixture
def make_job(tmp_path, trainer_cache):
    def make(name, **options):
        return write_digits_job(tmp_path / name, trainer_cache, **options)

    return make


def write_digits_job(root, cache_dir, *, resume=None):
    spec = {
        "task": "image-classification",
        "dataset": "builtin:digits",
        "training": {"batch_size": 32, "epochs": 12},
    }
    return write_job(root, spec, resume=resume, cache_dir=str(cache_dir))


def run_to_end(child):
    return child.wait(timeout=PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, trainer_cache):
    """A run of 12 epochs that nothing disturbed."""
    job_dir = write_digits_job(tmp_path_factory.mktemp("straight") / "job", trainer_cache)
    run_here(job_dir)
    return job_dir


def test_a_run_that_is_stopped_and_then_killed_is_the_uninterrupted_one(
    make_job, start, start_warm, undisturbed
):
    stopped = make_job("broken")
    child = start(*TRAINER, stopped.root)
    wait_for(lambda: step_of(stopped) >= 10)
    child.send_signal(signal.SIGTERM)
    assert run_to_end(child) == EXIT_STOPPED
    newest = events(stopped, "checkpoint")[-1]
    assert 10 <= newest["step"] < 12 * 45
    assert max(losses(stopped)) == newest["step"]

    killed = make_job("broken", resume=newest["file"])
    child = start_warm(*TRAINER, killed.root)
    wait_for(lambda: events(killed, "checkpoint")[-1]["step"] > newest["step"])
    child.kill()
    assert run_to_end(child) == -signal.SIGKILL
    resumed = make_job("broken", resume=events(killed, "checkpoint")[-1]["file"])
    run_here(resumed)
    assert losses(resumed) == losses(undisturbed)


def test_a_checkpoint_that_finds_no_room_ends_the_run_and_the_one_before_resumes(
    make_job, start, undisturbed, tmp_path
):
    full = make_job("full")
    library = compile_library(tmp_path)
    faults = Faults(library, tmp_path / "control", below=full.checkpoints_dir)
    variables = [f"{name}={value}" for name, value in faults.environment.items()]
    child = start("env", *variables, *TRAINER, full.root)
    wait_for(lambda: events(full, "checkpoint"))
    with faults.no_room():
        assert run_to_end(child) == EXIT_FAILED
    assert events(full, "failure")[-1]["code"] == "disk_full"
    saved = {data["file"] for data in events(full, "checkpoint")}
    left = {path.name for path in full.checkpoints_dir.glob("*.safetensors*")}
    assert not [path.name for path in full.checkpoints_dir.iterdir() if path.suffix == ".tmp"]
    assert left <= saved
    resumed = make_job("full", resume=events(full, "checkpoint")[-1]["file"])
    run_here(resumed)
    assert losses(resumed) == losses(undisturbed)


def test_sigterm_right_after_the_start_ends_the_process_at_once(make_job, start):
    job_dir = make_job("sooner")
    child = start(*TRAINER, str(job_dir.root))
    wait_for(lambda: hears_sigterm(child.pid))
    # Torch takes over a second to import.
    time.sleep(0.3)
    child.send_signal(signal.SIGTERM)
    assert child.wait(timeout=60) == EXIT_STOPPED


def test_sigterm_while_preparing_ends_the_process_at_once(make_job, start_warm):
    job_dir = make_job("early")
    child = start_warm(*TRAINER, job_dir.root)
    wait_for(lambda: events(job_dir, "phase"))
    child.send_signal(signal.SIGTERM)
    assert run_to_end(child) == EXIT_STOPPED
    assert not events(job_dir, "failure")


def test_a_spare_trains_its_job_and_an_export_writes_the_artifacts(make_job, start, undisturbed):
    spare = start(*TRAINER, "--spare", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert spare.stdout.readline() == b"ready\n"
    job_dir = make_job("warm")
    spare.stdin.write(f"{job_dir.root}\n".encode())
    spare.stdin.flush()
    assert run_to_end(spare) == EXIT_DONE
    assert losses(job_dir) == losses(undisturbed)
    assert job_dir.log_path.exists()
    assert run_to_end(start(*EXPORT, job_dir.root)) == EXIT_DONE
    names = {output.name for output in job_dir.load_outputs()}
    assert {"model.onnx", "parity.npz", "manifest.json", "report.html", "curves.png"} <= names
    assert events(job_dir, "result")[-1]["verified"] is True


def test_a_trainer_ends_with_its_parent():
    code = (
        "import subprocess, sys, os\n"
        "os.environ['REDKILN_PARENT_PID'] = str(os.getpid())\n"
        "command = [sys.executable, '-m', 'worker.trainer', '--spare']\n"
        "child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "print(child.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with parent:
        pid = int(parent.stdout.readline())
        # It handles the signal after it has tied itself to its parent, and before it imports torch.
        wait_for(lambda: hears_sigterm(pid))
        parent.kill()
    wait_for(lambda: not is_alive(pid))


def test_a_trainer_whose_parent_is_gone_already_leaves(make_job):
    environment = {**os.environ, "REDKILN_PARENT_PID": "1"}
    command = [sys.executable, "-m", "worker.trainer", str(make_job("orphan").root)]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False, timeout=60)
    assert done.returncode == 1


def test_an_export_without_a_training_fails_with_a_clear_error(make_job, start):
    job_dir = make_job("nothing")
    assert run_to_end(start(*EXPORT, job_dir.root)) == EXIT_FAILED
    assert events(job_dir, "failure")[-1]["message"]


def hears_sigterm(pid):
    caught = re.search(r"^SigCgt:\t(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.M)
    return bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)


def test_the_trainer_has_a_waiting_exporter_rehearse(start, tmp_path):
    job_dir = write_new_job(tmp_path)
    with joined(start, job_dir) as (trainer, exporter):
        assert run_to_end(trainer) == EXIT_DONE
        exporter.stdin.write(f"{job_dir.root}\n".encode())
        exporter.stdin.flush()
        assert run_to_end(exporter) == EXIT_DONE
    assert events(job_dir, "result")[-1]["verified"]
    assert "does not answer" not in job_dir.log_path.read_text()


def test_a_killed_exporter_only_makes_the_rehearsal_cold(start, tmp_path):
    job_dir = write_new_job(tmp_path)
    with joined(start, job_dir) as (trainer, exporter):
        exporter.kill()
        assert run_to_end(trainer) == EXIT_DONE
    assert any("does not answer" in data["text"] for data in events(job_dir, "message"))


def write_new_job(tmp_path):
    """A job of an architecture that no job has rehearsed."""
    spec = {
        "task": "image-classification",
        "dataset": "builtin:digits",
        "training": {"batch_size": 32, "steps": 5, "compile": "off"},
    }
    return write_job(tmp_path / "job", spec, cache_dir=str(tmp_path / "cache"))


@contextlib.contextmanager
def joined(start, job_dir):
    """A trainer of a job and a waiting exporter, joined by a socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs, job_dir.log_path.open("wb") as log:
        exporter = start(
            "env", f"{EXPORTER_VARIABLE}={theirs.fileno()}", *EXPORT, "--spare",
            stdin=subprocess.PIPE, pass_fds=[theirs.fileno()],
        )  # fmt: skip
        theirs.close()
        trainer = start(
            "env", f"{EXPORTER_VARIABLE}={ours.fileno()}", *TRAINER, job_dir.root,
            stdout=log, pass_fds=[ours.fileno()],
        )  # fmt: skip
        ours.close()
        yield trainer, exporter
