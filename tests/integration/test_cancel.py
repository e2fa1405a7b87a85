"""A cancel ends a job wherever it is, once."""

import os
import signal

import pytest

pytestmark = pytest.mark.integration

FINAL = {"succeeded", "failed", "cancelled"}


def final_events(site, job_id):
    return [event.kind for event in site.client.events(job_id) if event.kind in FINAL]


def cancel(site, job_id):
    site.client.cancel(job_id)
    job = site.wait_for_end(job_id)
    assert job.status == "cancelled"
    assert final_events(site, job_id) == ["cancelled"]
    site.wait_for(lambda: site.trainer_of() is None)
    return job


def test_while_it_is_queued(site):
    worker = site.stack.workers[0]
    worker.signal(signal.SIGSTOP)
    job_id = site.submit()
    assert site.client.job(job_id).status == "queued"
    job = cancel_without_worker(site, job_id)
    assert job.attempts == []
    worker.signal(signal.SIGCONT)
    after = site.submit(epochs=1)
    site.wait_for_success(after)
    assert site.client.job(job_id).attempts == []


def cancel_without_worker(site, job_id):
    site.client.cancel(job_id)
    job = site.client.job(job_id)
    assert job.status == "cancelled"
    return job


def test_while_it_is_prepared(site):
    spare = site.wait_for(lambda: waiting_trainer(site))
    os.kill(spare.pid, signal.SIGSTOP)
    job_id = site.submit(epochs=400)
    site.wait_for(lambda: site.client.job(job_id).phase == "preparing")
    cancel(site, job_id)
    assert not spare.is_running()


def waiting_trainer(site):
    words = {"worker.trainer", "train"}  # the real one and the fake
    trainers = (c for c in site.children_of() if words & {*c.cmdline()})
    return next(trainers, None)


def test_while_it_trains(site):
    job_id = site.submit(epochs=400)
    site.wait_for_training(job_id)
    job = cancel(site, job_id)
    assert [str(attempt.status) for attempt in job.attempts] == ["cancelled"]


def test_while_it_is_exported(site):
    job_id = site.submit(epochs=1, metadata={"export_seconds": "600"})
    site.wait_for(lambda: site.client.job(job_id).phase in ("exporting", "verifying"))
    cancel(site, job_id)
    assert site.client.artifacts(job_id) == []
