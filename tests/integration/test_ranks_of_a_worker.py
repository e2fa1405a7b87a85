"""A worker whose jobs train on two ranks: failures and requests."""

import os
import signal

import psutil
import pytest

from tests.integration.conftest import start_site

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def shared_pair(tmp_path_factory):
    yield from start_site(
        tmp_path_factory,
        REDKILN_CPU_RANKS="2",
        REDKILN_THREADS="2",
        REDKILN_CANCEL_GRACE_SECONDS="20",
        REDKILN_SHUTDOWN_GRACE_SECONDS="60",
        REDKILN_SPARE="0",  # each attempt would start and end a warm exporter
    )


@pytest.fixture
def site(shared_pair):
    shared_pair.restore()
    return shared_pair


def ranks_of(site):
    """The processes of the ranks by their number."""
    found = {}
    for child in site.children_of():
        try:
            environ = child.environ()
        except psutil.Error:
            continue
        if "RANK" in environ:
            found[environ["RANK"]] = child
    return found


def wait_for_training(site, job_id):
    site.wait_for(lambda: site.committed_steps(job_id), seconds=300)
    return site.wait_for(lambda: (found := ranks_of(site)) and len(found) == 2 and found)


def test_a_job_survives_a_killed_rank_and_a_pause_leaves_no_rank_behind(site):
    job_id = site.submit(epochs=2000)
    ranks = wait_for_training(site, job_id)
    os.kill(ranks["1"].pid, signal.SIGKILL)
    site.wait_for(lambda: not ranks["0"].is_running(), seconds=10)
    # A checkpoint from before the kill may be committed while the next attempt starts.
    site.wait_for(lambda: len(site.client.job(job_id).attempts) == 2, seconds=60)
    killed_at = max(site.committed_steps(job_id))
    site.wait_for(lambda: max(site.committed_steps(job_id)) > killed_at, seconds=300)
    job = site.client.job(job_id)
    assert [str(attempt.status) for attempt in job.attempts] == ["failed", "running"]
    assert job.attempts[0].failure.code == "killed"
    assert job.attempts[1].resumed_from_step in site.committed_steps(job_id)

    ranks = wait_for_training(site, job_id)
    site.client.pause(job_id)
    site.wait_for(lambda: site.client.job(job_id).status == "paused", seconds=60)
    assert not any(rank.is_running() for rank in ranks.values())
    # Continuing after a pause: test_ranks (the ranks), test_steering (the worker).
    site.client.cancel(job_id)
    assert site.wait_for_end(job_id).status == "cancelled"
