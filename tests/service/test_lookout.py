import asyncio

import pytest
import sqlalchemy as sa

from service.changes import Changes
from service.errors import DatabaseBusy
from service.jobs.models import JOB
from service.lookout import Lookout


@pytest.fixture
def touch(services):
    """Change a job as another process would: without an announcement."""

    def touch(job_id):
        statement = sa.update(JOB).where(JOB.c.id == job_id).values(revision=JOB.c.revision + 1)
        services.database.write(lambda s: s.execute(statement))

    return touch


def look_at(services, job_ids, *steps):
    """Look before and after each step; return for each look which jobs woke."""

    async def run():
        changes = Changes()
        changes.start()
        lookout = Lookout(services.database, changes)
        woken = []
        with changes.follow(job_ids[0]) as first, changes.follow(job_ids[1]) as second:
            for step in (lambda: None, *steps):
                step()
                await lookout.look()
                await asyncio.sleep(0)
                woken.append([event.is_set() for event in (first, second)])
                first.clear()
                second.clear()
        await lookout.look()
        return woken

    return asyncio.run(run())


def test_only_followers_of_changed_jobs_wake(services, submit, touch):
    job_ids = [submit()["id"], submit()["id"]]
    woken = look_at(services, job_ids, lambda: None, lambda: touch(job_ids[1]))
    assert woken == [[True, True], [False, False], [False, True]]


def test_a_deleted_job_wakes_its_followers(services, submit, client):
    job_ids = [submit()["id"], submit()["id"]]
    client.post(f"/v1/jobs/{job_ids[0]}/cancel")
    woken = look_at(services, job_ids, lambda: client.delete(f"/v1/jobs/{job_ids[0]}"))
    assert woken[-1] == [True, False]


def test_a_busy_database_is_asked_again_later(services, submit, touch, monkeypatch):
    job_ids = [submit()["id"], submit()["id"]]

    def fail(*_):
        raise DatabaseBusy("busy")

    def break_it():
        touch(job_ids[0])
        monkeypatch.setattr(services.database, "execute_read", fail)

    woken = look_at(services, job_ids, break_it, monkeypatch.undo)
    assert woken == [[True, True], [False, False], [True, False]]
