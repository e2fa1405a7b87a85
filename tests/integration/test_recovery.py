"""Faults while a job trains on a fake trainer; the job survives each."""

import os
import signal
import sqlite3
from contextlib import closing

import psutil
import pytest

pytestmark = pytest.mark.integration

LONG = 400
"""Epochs of about 0.1 s each: a job that is still training when it is broken into."""


def statuses(job):
    return [str(attempt.status) for attempt in job.attempts]


def damage_newest_checkpoint(site, job_id):
    """Cut the last byte off what the service has stored; the step of the checkpoint."""
    (path,) = site.stack.state_dir.glob("*.db")
    with closing(sqlite3.connect(path)) as database:
        step, sha256 = database.execute(
            "SELECT step, sha256 FROM checkpoint WHERE job_id = ? ORDER BY step DESC", (job_id,)
        ).fetchone()
    (blob,) = site.stack.state_dir.glob(f"blobs/*/{sha256}")
    os.truncate(blob, blob.stat().st_size - 1)
    return step


def test_a_job_resumes_from_the_checkpoint_before_a_damaged_one_and_can_be_paused(site):
    job_id = site.submit(epochs=LONG, training={"validation_fraction": 0}, retry={"failures": 0})
    site.wait_for_training(job_id, checkpoints=3)
    os.kill(site.trainer_of().pid, signal.SIGKILL)
    assert site.wait_for_end(job_id).status == "failed"
    damaged = damage_newest_checkpoint(site, job_id)
    kept = [item.step for item in site.client.checkpoints(job_id)]
    assert kept[0] == damaged
    site.client.retry(job_id)
    site.wait_for(lambda: site.events(job_id, "resolved")[1:])
    assert site.client.job(job_id).attempts[1].resumed_from_step == kept[1]
    site.client.pause(job_id)
    site.wait_for(lambda: site.client.job(job_id).status == "paused")
    job = site.client.job(job_id)
    assert "checkpoint_unavailable" in [warning.code for warning in job.warnings]
    assert "restarted" not in [warning.code for warning in job.warnings]
    steps = [item.step for item in site.client.checkpoints(job_id)]
    assert steps[0] >= job.progress.step > kept[1]
    (loss,) = site.client.metrics(job_id, names=["train/loss"], max_points=100_000)
    assert loss.steps == sorted(set(loss.steps))
    assert loss.steps[-1] == steps[0]
    site.client.cancel(job_id)


def test_kill_9_of_the_worker_ends_its_children_and_a_restart_resumes_at_once(site):
    job_id = site.submit(epochs=25)
    site.wait_for_training(job_id)
    worker = site.stack.workers[0]
    children = [psutil.Process(child.pid) for child in site.children_of(worker)]
    assert children
    worker.kill()
    site.wait_for(lambda: not any(child.is_running() for child in children))
    worker.restart()
    site.stack.wait_for_worker(worker)
    # The lease (30 s) is far from its end: it is the hello that ends the old attempt.
    site.wait_for(lambda: len(site.client.job(job_id).attempts) == 2, seconds=20)
    job = site.wait_for_end(job_id)
    assert (job.status, statuses(job)) == ("succeeded", ["lost", "succeeded"])
    assert job.attempts[1].resumed_from_step in site.committed_steps(job_id)


def test_sigterm_of_the_worker_uploads_the_checkpoint_and_loses_no_step(site):
    job_id = site.submit(epochs=25, retry={"failures": 0, "lost_workers": 0})
    site.wait_for_training(job_id)
    before = site.committed_steps(job_id)[-1]
    worker = site.stack.workers[0]
    worker.signal(signal.SIGTERM)
    assert worker.wait(60)
    assert worker.exit_status == 0
    job = site.client.job(job_id)
    assert (job.status, statuses(job)) == ("queued", ["released"])
    handed_in = site.committed_steps(job_id)[-1]
    assert handed_in > before
    assert handed_in == [e.data["step"] for e in site.events(job_id, "checkpoint")][-1]
    worker.restart()
    job = site.wait_for_end(job_id)
    assert (job.status, statuses(job)) == ("succeeded", ["released", "succeeded"])
    assert job.attempts[1].resumed_from_step == handed_in


def test_kill_9_of_the_service_and_no_event_is_lost_or_doubled(site):
    job_id = site.submit(epochs=30)
    step = site.wait_for_training(job_id)
    service = site.stack.service
    service.kill()
    assert site.trainer_of() is not None
    service.restart()
    site.stack.wait_for_service()
    job = site.wait_for_end(job_id)
    assert (job.status, statuses(job)) == ("succeeded", ["succeeded"])
    assert job.progress.step > step
    seqs = [event.seq for event in site.client.events(job_id)]
    assert seqs == list(range(1, len(seqs) + 1))
    (loss,) = site.client.metrics(job_id, names=["train/loss"], max_points=100_000)
    assert loss.steps == sorted(set(loss.steps))
    epochs = [e.data["epoch"] for e in site.events(job_id, "checkpoint")]
    assert sorted(set(epochs)) == epochs


def test_a_service_that_is_away_longer_than_the_attempt_gets_its_result(site):
    job_id = site.submit(epochs=4)
    site.wait_for(lambda: site.client.job(job_id).status == "running")
    service = site.stack.service
    service.kill()
    marker = site.stack.worker_dir() / "jobs"
    site.wait_for(lambda: list(marker.glob("*/out/artifacts.json")))
    service.restart()
    site.stack.wait_for_service()
    job = site.wait_for_end(job_id)
    assert (job.status, statuses(job)) == ("succeeded", ["succeeded"])
    assert {"model.onnx", "report.md", "trainer.log"} <= site.artifact_names(job_id)


def test_a_job_that_kills_its_worker_does_not_stay(site):
    job_id = site.submit(epochs=LONG, retry={"lost_workers": 1})
    worker = site.stack.workers[0]
    for _ in range(2):
        site.wait_for(lambda: site.trainer_of() is not None)
        worker.kill()
        worker.restart()
        site.stack.wait_for_worker(worker)
    job = site.wait_for_end(job_id)
    assert (job.status, statuses(job)) == ("failed", ["lost", "lost"])
