"""Workers that are shut down while they run a script, and others that resume it."""

import signal

import pytest

from redkiln.status import JobStatus

pytestmark = pytest.mark.integration

SAVES = """
    import os, signal, sys, time
    import redkiln
    state = os.path.join(os.environ["REDKILN_CHECKPOINTS"], "state")
    if redkiln.is_resumed():
        print("continues from", open(state).read(), flush=True)
        sys.exit(0)
    def save(*_):
        time.sleep(1.5)
        open(state, "w").write("what was saved in its grace")
        sys.exit(0)
    signal.signal(signal.SIGTERM, save)
    print("up", flush=True)
    while True:
        time.sleep(0.1)
"""
DEAF = """
    import os, signal, sys, time
    import redkiln
    if redkiln.is_resumed():
        sys.exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open(os.path.join(os.environ["REDKILN_CHECKPOINTS"], "state"), "w").close()
    print("up", flush=True)
    while True:
        time.sleep(0.1)
"""
NO_RETRY = {"failures": 0, "lost_workers": 0}


@pytest.fixture
def workers(shared_scripts):
    """A stack of one worker that runs scripts, whole before each test and behind it."""
    shared_scripts.restore()
    yield shared_scripts
    shared_scripts.restore()


def test_sigterm_of_the_worker_lets_a_script_save_and_another_worker_resumes(workers):
    job_id = workers.run_script("python", "-c", SAVES, script={"grace_seconds": 20}, retry=NO_RETRY)
    workers.wait_for(lambda: "up" in workers.log(job_id))
    first = workers.stack.workers[0]
    other = workers.stack.add_worker()
    workers.stack.wait_for_worker(other)
    first.signal(signal.SIGTERM)
    assert first.wait(30)
    assert first.exit_status == 0
    job = workers.wait_for_end(job_id)
    log = workers.log(job_id)
    assert job.status is JobStatus.SUCCEEDED, log
    assert [attempt.status for attempt in job.attempts] == ["released", "succeeded"]
    assert job.attempts[0].worker_id != job.attempts[1].worker_id
    assert job.attempts[1].resumed_from_step in workers.committed_steps(job_id)
    assert "continues from what was saved in its grace" in log


def test_a_script_that_ignores_sigterm_is_killed_after_its_grace(workers):
    job_id = workers.run_script("python", "-c", DEAF, script={"grace_seconds": 1}, retry=NO_RETRY)
    workers.wait_for(lambda: "up" in workers.log(job_id))
    worker = workers.stack.workers[0]
    worker.signal(signal.SIGTERM)
    assert worker.wait(30)
    job = workers.client.job(job_id)
    assert (job.status, [attempt.status for attempt in job.attempts]) == ("queued", ["released"])
    assert workers.committed_steps(job_id)
    worker.restart()
    job = workers.wait_for_end(job_id)
    assert [attempt.status for attempt in job.attempts] == ["released", "succeeded"]
