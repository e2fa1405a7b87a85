"""Clocks that jump and disks that fail, under real processes."""

import hashlib
import secrets
import sqlite3
from contextlib import closing

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("faults")]

HOUR = 3600


def assert_sound(site):
    """The database is whole, and every stored blob has the bytes of its name."""
    place = f"file:{site.stack.state_dir}/redkiln.db?mode=ro"
    with closing(sqlite3.connect(place, uri=True)) as database:
        assert database.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    for blob in site.stack.state_dir.glob("blobs/*/*"):
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name


def names(site):
    return {job.name for job in site.client.jobs()}


@pytest.mark.parametrize("hours", [1, -1], ids=["fast", "slow"])
def test_a_worker_whose_clock_jumps_by_an_hour_keeps_its_lease(faulty, hours):
    job_id = faulty.submit(epochs=6)
    faulty.wait_for_training(job_id)
    with faulty.worker_faults.clock(hours * HOUR):
        faulty.succeed_whole(job_id, steps=60)


@pytest.mark.parametrize("hours", [1, -1], ids=["forwards", "backwards"])
def test_a_service_whose_clock_jumps_loses_at_most_one_attempt(faulty, hours):
    job_id = faulty.submit(epochs=15)
    faulty.wait_for_training(job_id)
    with faulty.service_faults.clock(hours * HOUR):
        faulty.wait_for_success(job_id)
        assert faulty.statuses(job_id) in (["succeeded"], ["lost", "succeeded"])
        faulty.assert_whole(job_id, steps=150)


def test_a_sync_of_the_service_that_fails_acknowledges_nothing(faulty):
    job_id = faulty.submit(epochs=10)
    faulty.wait_for_training(job_id)
    with faulty.service_faults.broken_syncs():
        assert faulty.ask_to_train("not synced").status_code >= 500
    faulty.succeed_whole(job_id, steps=100)
    assert faulty.ask_to_train("synced").status_code == 202
    assert names(faulty) & {"synced", "not synced"} == {"synced"}
    assert_sound(faulty)


def test_an_io_error_of_the_service_is_an_error_and_nothing_is_half_written(faulty):
    job_id = faulty.submit(epochs=10)
    faulty.wait_for_training(job_id)
    with faulty.service_faults.broken_writes():
        assert faulty.ask_to_train("not written").status_code >= 500
    faulty.succeed_whole(job_id, steps=100)
    assert "not written" not in names(faulty)
    assert_sound(faulty)


def test_a_full_disk_refuses_what_is_new_and_loses_nothing(faulty):
    job_id = faulty.submit(epochs=15)
    faulty.wait_for_training(job_id)
    acknowledged, attempt = set(), secrets.token_hex(4)
    with faulty.full_disk():
        statuses = set()
        for number in range(2000):
            name = f"full {attempt} {number}"
            statuses.add(status := faulty.ask_to_train(name).status_code)
            if status != 202:
                break
            acknowledged.add(name)
        assert status == 507, statuses
        assert not list((faulty.stack.state_dir / "staging").glob("*/*"))
    faulty.client.cancel_all(search=f"full {attempt}")
    # The worker's disk was full, too: its trainer may have died, and resumed from a checkpoint.
    faulty.wait_for_success(job_id)
    faulty.assert_whole(job_id, steps=150)
    assert {name for name in names(faulty) if name.startswith(f"full {attempt} ")} == acknowledged
    assert_sound(faulty)


def test_a_full_disk_accepts_the_delete_that_it_advises_and_a_start(faulty):
    job_id = faulty.submit(epochs=1)
    faulty.succeed_whole(job_id, steps=10)
    service = faulty.stack.service
    with faulty.full_disk():
        while faulty.ask_to_train("fill").status_code == 202:
            pass
        service.kill()
        service.restart()
        faulty.stack.wait_for_service()
        assert faulty.ask("DELETE", f"/v1/jobs/{job_id}").status_code == 204
        assert faulty.ask("GET", f"/v1/jobs/{job_id}").status_code == 404
    assert_sound(faulty)
