"""A job that several ranks train together: real processes, which exchange data with gloo."""

import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.integration.trainer.runs import (
    PATIENCE_SECONDS,
    TRAINER,
    events,
    losses,
    run_here,
    step_of,
    write_job,
)
from tests.waiting import wait_for
from worker.jobdir import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

TOLERANCE = 2e-3
"""Of a loss near 1, after some hundred steps: sums of floats come in another order."""


@pytest.fixture
def make_job(tmp_path, trainer_cache):
    """A job directory; amdnet has no batch norm, and no dropout."""

    def make(name, *, num_ranks=2, resume=None, model="amdnet", device="cpu", **training):
        spec = {
            "task": "image-classification",
            "dataset": "builtin:digits",
            "model": model,
            "training": {"batch_size": 64, "epochs": 3, "precision": "fp32", **training},
        }
        return write_job(
            tmp_path / name,
            spec,
            device=device,
            threads=num_ranks,
            num_ranks=num_ranks,
            resume=resume,
            cache_dir=str(trainer_cache),
        )

    return make


@pytest.fixture
def losses_of_one(make_job):
    """The losses of one process that trains with these options."""

    def run(**options):
        alone = make_job("alone", num_ranks=1, **options)
        run_here(alone)
        return losses(alone)

    return run


@pytest.fixture
def train(start):
    """Starts the trainer of a job directory, or another command of it, which writes its log."""

    def run(job_dir, *command):
        with job_dir.log_path.open("ab") as log:
            return start(*(command or TRAINER), str(job_dir.root), stdout=log, stderr=log)

    return run


def run_to_end(child, job_dir):
    status = child.wait(timeout=PATIENCE_SECONDS)
    assert not members(child.pid), "a process was left"
    print(job_dir.log_path.read_text()[-3000:])  # noqa: T201  shown when a test fails
    return status


def members(group):
    """Living processes of a group."""
    found = []
    for process in psutil.process_iter():
        try:
            is_member = os.getpgid(process.pid) == group
            if is_member and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, ProcessLookupError):
            continue
    return found


def ranks_of(child):
    """The processes of the ranks, in their order; none before all are there."""
    found = {}
    for process in members(child.pid):
        try:
            environ = process.environ()
        except psutil.Error:
            continue
        if "RANK" in environ and process.ppid() == child.pid and process.pid != child.pid:
            found[int(environ["RANK"])] = process
    return [found[rank] for rank in sorted(found)] if len(found) == 2 else []


def assert_same_curve(one, other):
    assert one.keys() == other.keys()
    assert one
    for step, loss in one.items():
        assert other[step] == pytest.approx(loss, rel=TOLERANCE, abs=TOLERANCE), step


def test_a_run_resumes_to_the_same_curve_with_another_number_of_ranks(
    make_job, train, losses_of_one
):
    options = {"epochs": 12, "ema": 0.9}

    def resume(num_ranks):
        newest = events(job_dir, "checkpoint")[-1]
        return make_job("broken", num_ranks=num_ranks, resume=newest["file"], **options), newest

    # A stop of one of two ranks is a stop of both, at one step.
    job_dir = make_job("broken", **options)
    child = train(job_dir)
    wait_for(lambda: step_of(job_dir) >= 30)
    ranks_of(child)[1].send_signal(signal.SIGTERM)
    assert run_to_end(child, job_dir) == EXIT_STOPPED
    job_dir, newest = resume(num_ranks=1)
    assert max(losses(job_dir)) == newest["step"]

    # A stop of the only process, which is this one: it has imported torch.
    run_here(job_dir, stop_at=newest["step"] + 5)
    job_dir, newest = resume(num_ranks=2)
    assert max(losses(job_dir)) == newest["step"]

    # A rank that is killed. The leader leaves as the rank did, so that the agent judges its death.
    child = train(job_dir)
    wait_for(lambda: events(job_dir, "checkpoint")[-1]["step"] > newest["step"])
    ranks_of(child)[1].send_signal(signal.SIGKILL)
    began = time.monotonic()
    assert run_to_end(child, job_dir) == -signal.SIGKILL
    assert time.monotonic() - began < 5.0
    assert not events(job_dir, "failure")

    # test_two_ranks goes from two ranks to their end.
    job_dir, newest = resume(num_ranks=1)
    run_here(job_dir)
    assert_same_curve(losses_of_one(**options), losses(job_dir))


def test_sigterm_while_the_ranks_prepare_ends_them_at_once(make_job, train):
    job_dir = make_job("early")
    child = train(job_dir)
    wait_for(lambda: ranks_of(child))
    os.killpg(child.pid, signal.SIGTERM)
    assert run_to_end(child, job_dir) == EXIT_STOPPED
    assert not events(job_dir, "failure")


def test_ranks_die_with_their_leader(make_job, train):
    job_dir = make_job("orphans", epochs=50)
    child = train(job_dir)
    ranks = wait_for(lambda: step_of(job_dir) >= 3 and ranks_of(child))
    child.kill()
    wait_for(lambda: not any(map(psutil.Process.is_running, ranks)), seconds=10)


@pytest.mark.gpu
@pytest.mark.parametrize("model", ["amdnet", "resnet18"])
def test_two_gpus_make_the_curve_of_one(make_job, train, model):
    """Batch norm sees the whole batch there, so its models have the same curve, too."""
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("this machine has not two GPUs")
    alone = make_job("alone", num_ranks=1, model=model, device="cuda:0")
    assert run_to_end(train(alone), alone) == EXIT_DONE
    both = make_job("both", model=model, device="cuda:0")
    assert run_to_end(train(both), both) == EXIT_DONE
    first = [list(losses(job).values())[:20] for job in (alone, both)]
    assert first[0] == pytest.approx(first[1], rel=0.02, abs=0.02)


def test_what_a_rank_fails_with_is_the_failure_of_the_run(make_job, train):
    job_dir = make_job("broken")
    child = train(job_dir, sys.executable, str(Path(__file__).parent / "broken_rank.py"))
    assert run_to_end(child, job_dir) == EXIT_FAILED
    (failure,) = events(job_dir, "failure")
    assert (failure["code"], failure["retryable"]) == ("internal", False)
    assert failure["details"]["rank"] == 1


def test_torchrun_can_start_the_ranks_too_and_they_say_what_batch_norm_sees(make_job, train):
    job_dir = make_job("torchrun", num_ranks=2, model="resnet18", steps=6, epochs=None)
    child = train(
        job_dir,
        "env", "-u", "REDKILN_PARENT_PID",
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
        "-m", "worker.trainer",
    )  # fmt: skip
    status = child.wait(timeout=PATIENCE_SECONDS)
    assert status == EXIT_DONE, job_dir.log_path.read_text()[-3000:]
    assert len(losses(job_dir)) == 6
    assert any("batch norm uses one rank's part" in m["text"] for m in events(job_dir, "message"))
