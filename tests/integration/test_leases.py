"""Workers that fall silent, and others that take over."""

import os
import signal
import time

import pytest

pytestmark = pytest.mark.integration


def statuses(job):
    return [str(attempt.status) for attempt in job.attempts]


def add_worker(site):
    worker = site.stack.add_worker()
    site.stack.wait_for_worker(worker)
    return worker


def test_another_worker_resumes_from_the_committed_checkpoint(brief_site):
    site = brief_site
    other = add_worker(site)
    job_id = site.submit(epochs=30)
    site.wait_for_training(job_id)
    first, second = site.stack.workers[0], other
    if site.trainer_of(first) is None:
        first, second = second, first
    first.kill()
    site.wait_for(lambda: site.trainer_of(second) is not None)
    job = site.wait_for_end(job_id)
    assert (job.status, statuses(job)) == ("succeeded", ["lost", "succeeded"])
    assert job.attempts[0].worker_id != job.attempts[1].worker_id
    assert job.attempts[1].resumed_from_step in site.committed_steps(job_id)


def test_a_worker_that_wakes_after_its_lease_stops_and_changes_nothing(brief_site):
    site = brief_site
    add_worker(site)
    job_id = site.submit(epochs=50)
    site.wait_for_training(job_id)
    zombie, other = site.stack.workers
    if site.trainer_of(zombie) is None:
        zombie, other = other, zombie
    trainer = site.trainer_of(zombie)
    zombie.signal(signal.SIGSTOP)
    site.wait_for(lambda: statuses(site.client.job(job_id)) == ["lost", "running"])
    before = site.client.job(job_id).attempts[0]
    zombie.signal(signal.SIGCONT)
    site.wait_for(lambda: '"outcome": "superseded"' in zombie.read_log())
    site.wait_for(lambda: not trainer.is_running())
    job = site.wait_for_end(job_id)
    assert (job.status, statuses(job)) == ("succeeded", ["lost", "succeeded"])
    assert job.attempts[0] == before
    assert {e.attempt_id for e in events_after(site, job_id, before.finished_at)} <= {
        job.attempts[1].id,
        None,
    }


def events_after(site, job_id, moment):
    events = list(site.client.events(job_id))
    lost = max(i for i, e in enumerate(events) if e.kind in ("requeued", "lost"))
    return events[lost + 1 :]


def test_a_worker_that_stops_for_a_moment_keeps_its_lease(site):
    job_id = site.submit(epochs=30)
    site.wait_for_training(job_id)
    worker = site.stack.workers[0]
    worker.signal(signal.SIGSTOP)
    time.sleep(1.0)
    assert os.waitid(os.P_PID, worker.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    worker.signal(signal.SIGCONT)
    job = site.wait_for_end(job_id)
    assert (job.status, statuses(job)) == ("succeeded", ["succeeded"])
