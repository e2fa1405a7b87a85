"""PostgreSQL is killed, drops connections and reports deadlocks, under one and two services."""

import os
import shutil
import sys
import time
from contextlib import contextmanager

import httpx
import pytest

from native.processes import Part, wait_until
from native.stack import Stack, find_free_port, is_healthy
from tests.integration.conftest import FAKES, SHORT_TIMES, Site
from tests.postgres import DEBIAN, running

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("faults-postgres")]


LEASE_SECONDS = 6


@pytest.fixture(scope="module")
def server():
    if not DEBIAN.exists() and shutil.which("initdb") is None:
        pytest.skip("PostgreSQL is missing: install Debian's package postgresql")
    with running(is_durable=True) as server:
        yield server


@pytest.fixture(scope="module")
def shared(server, tmp_path_factory):
    state = tmp_path_factory.mktemp("state")
    environment = {
        **SHORT_TIMES,
        **FAKES,
        "REDKILN_DATABASE_URL": server.create("faults"),
        "REDKILN_LEASE_SECONDS": str(LEASE_SECONDS),
    }
    with Stack(state, environment=environment) as stack:
        site = Site(stack)
        site.environment = environment
        yield site
        site.close()


@pytest.fixture
def site(shared, server):
    if server.process.poll() is not None:  # a test that failed has left it dead
        server.start()
    shared.restore()
    return shared


def ask(site, method, path, **content):
    headers = {"Authorization": f"Bearer {site.stack.admin_key}"}
    return httpx.request(method, f"{site.stack.url}{path}", headers=headers, timeout=60, **content)


def submit(site, name):
    spec = {"dataset": "builtin:digits", "model": "amdnet", "training": {"epochs": 1}}
    return ask(site, "POST", "/v1/jobs", json={**spec, "name": name})


def assert_whole(site, job_id):
    seqs = [event.seq for event in site.client.events(job_id)]
    assert seqs == list(range(1, len(seqs) + 1))


def test_a_killed_database_is_503_until_it_is_back_and_nothing_acknowledged_is_lost(site, server):
    job_id = site.submit(epochs=30)
    site.wait_for_training(job_id)
    acknowledged = [submit(site, f"before {number}").json()["id"] for number in range(5)]
    server.kill()
    for method, path in (("GET", "/v1/jobs"), ("GET", f"/v1/jobs/{job_id}")):
        refused = ask(site, method, path)
        assert refused.status_code == 503, path
        assert int(refused.headers["Retry-After"]) > 0
    refused = submit(site, "while it is away")
    assert (refused.status_code, int(refused.headers["Retry-After"]) > 0) == (503, True)
    ready = ask(site, "GET", "/readyz")
    assert ready.status_code == 503
    assert ready.json()["checks"]["database"].startswith("failed")
    server.start()
    site.wait_for(lambda: ask(site, "GET", "/readyz").status_code == 200)  # without a restart
    site.wait_for_success(job_id)
    assert [str(attempt.status) for attempt in site.client.job(job_id).attempts] == ["succeeded"]
    assert_whole(site, job_id)
    stored = {job.id: job.name for job in site.client.jobs()}
    assert set(acknowledged) <= set(stored)
    assert "while it is away" not in stored.values()


def test_connections_that_the_database_ends_cost_no_event(site, server):
    job_id = site.submit(epochs=60)
    site.wait_for_training(job_id)
    cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = 'faults'"
    for _ in range(3):
        site.wait_for(lambda: server.fetch(cut))
    site.wait_for_success(job_id)
    assert_whole(site, job_id)


def test_a_deadlock_is_repeated_inside_the_service(site, server):
    job_id = site.submit(epochs=60)
    site.wait_for_training(job_id)
    before = server.fetch(DEADLOCKS)
    lock_backwards(server, job_id, attempt_id=site.client.job(job_id).attempts[0].id, site=site)
    site.wait_for(lambda: server.fetch(DEADLOCKS) > before)
    site.wait_for_success(job_id)
    assert_whole(site, job_id)


DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = 'faults'"
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


def lock_backwards(server, job_id, *, attempt_id, site):
    """Lock a job and then its attempt, while a report locks them in the other order."""
    with server.connect("faults") as other:
        other.execute("SET deadlock_timeout = '100s'")  # the service notices the deadlock first
        other.execute("BEGIN")
        other.execute("SELECT id FROM job WHERE id = %s FOR UPDATE", [job_id])
        site.wait_for(lambda: server.fetch(WAITING))
        other.execute("SELECT id FROM attempt WHERE id = %s FOR UPDATE", [attempt_id])
        other.execute("COMMIT")


def test_a_database_that_is_away_longer_than_a_lease_loses_no_attempt(site, server):
    job_id = site.submit(epochs=60)
    site.wait_for_training(job_id)
    server.kill()
    began = time.monotonic()
    site.wait_for(lambda: time.monotonic() - began > LEASE_SECONDS + 1)
    assert ask(site, "GET", "/v1/jobs").status_code == 503
    server.start()
    site.wait_for_success(job_id)
    assert [str(attempt.status) for attempt in site.client.job(job_id).attempts] == ["succeeded"]
    assert_whole(site, job_id)


def test_two_services_lose_an_attempt_once(site, server):
    with second_service(site) as log:
        job_id = site.submit(epochs=60)
        site.wait_for_training(job_id)
        site.stack.workers[0].kill()
        statuses = lambda: [str(one.status) for one in site.client.job(job_id).attempts]  # noqa: E731
        site.wait_for(lambda: statuses() == ["lost"])
        site.stack.workers[0].restart()
        site.stack.wait_for_worker(site.stack.workers[0])
        site.wait_for_success(job_id)
        assert statuses() == ["lost", "succeeded"]
        assert len(site.events(job_id, "requeued")) == 1
        both = log() + site.stack.service.read_log()
        assert both.count(f'"job_id": "{job_id}"') or both.count(job_id)
    assert_whole(site, job_id)


@contextmanager
def second_service(site):
    """One more service on the same database; its log."""
    stack = site.stack
    port = find_free_port("127.0.0.1")
    place = {"REDKILN_BIND": f"127.0.0.1:{port}", "REDKILN_STATE_DIR": str(stack.state_dir)}
    command = [sys.executable, "-m", "service"]
    environment = {**os.environ, **site.environment, **place}
    log_path = stack.logs_dir / "second.log"
    part = Part("second service", command, environment=environment, log_path=log_path)
    part.start()
    try:
        wait_until(lambda: is_healthy(f"http://127.0.0.1:{port}"), part, timeout_seconds=120)
        yield part.read_log
        part.check()
    finally:
        part.kill()
