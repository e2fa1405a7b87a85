"""The asynchronous client, against the made service."""

import asyncio

import pytest

import redkiln
from redkiln.client import async_client
from redkiln.client.connection import RetryPolicy
from redkiln.client.watching import Disconnected, Reconnected
from redkiln.views.job import EventView
from tests.redkiln.fake_service import JOB_ID, MODEL


@pytest.fixture
def run(fake):
    """Runs a coroutine function with a client that does not wait long between two tries."""

    def run(act):
        async def with_client():
            policy = RetryPolicy(base_seconds=0.001)
            async with redkiln.AsyncClient(fake.url, policy=policy) as client:
                return await act(client)

        return asyncio.run(with_client())

    return run


def test_a_job_is_submitted_waited_for_and_downloaded(run, fake, tmp_path):
    async def act(client):
        job = await client.submit({"dataset": "flowers"})
        ended = await client.wait(job.id)
        paths = await client.download_all(job.id, tmp_path / "out", names=["model.onnx"])
        return ended, paths

    ended, (path,) = run(act)
    assert (ended.id, ended.status) == (JOB_ID, "succeeded")
    assert path.read_bytes() == MODEL
    assert fake.submitted[0][1]  # an idempotency key


def test_a_busy_service_is_asked_again_and_a_refusal_is_raised(run, fake):
    async def act(client):
        await client.submit({"dataset": "flowers"})
        with pytest.raises(redkiln.Rejected):
            await client.dry_run({"dataset": "flowers", "training": {"epochs": -1}})
        with pytest.raises(redkiln.NotFound):
            await client.job("job_nothing")
        with pytest.raises(redkiln.Conflict):
            await client.cancel(JOB_ID)

    fake.failures = [(503, {})]
    run(act)
    assert len(fake.submitted) == 1


def test_a_stream_that_breaks_continues_without_a_lost_or_repeated_event(run, fake, monkeypatch):
    monkeypatch.setattr("redkiln.client.watching.RECONNECT_SECONDS", (0.001,))
    fake.cut_after = [2, 1]

    async def act(client):
        return [update async for update in client.watch(JOB_ID)]

    updates = run(act)
    seqs = [update.seq for update in updates if isinstance(update, EventView)]
    assert seqs == list(range(1, len(fake.events) + 1))
    assert any(isinstance(update, Disconnected) for update in updates)
    assert any(isinstance(update, Reconnected) for update in updates)


def test_lists_events_and_metrics_are_read(run, fake):
    async def act(client):
        jobs = [job.id async for job in client.jobs(status=["failed", "queued"], search="a b")]
        events = [event.kind async for event in client.events(JOB_ID, after_seq=1)]
        return jobs, events, await client.metrics(JOB_ID, names=["train/loss"])

    jobs, events, (series,) = run(act)
    assert jobs == [JOB_ID]
    assert fake.asked_jobs[0]["q"] == "a b"
    assert events == [kind for kind, _ in fake.events[1:]]
    assert (series.name, series.steps) == ("train/loss", [1, 2, 3])


def test_waiting_ends_when_the_time_is_over(run, fake):
    fake.status = "running"

    async def act(client):
        with pytest.raises(redkiln.WaitTimeout, match="is still running"):
            await client.wait(JOB_ID, timeout_seconds=0.01)

    run(act)


def test_waiting_ends_when_the_time_is_over_although_the_service_is_away(monkeypatch):
    monkeypatch.setattr(async_client, "ANSWER_SECONDS", 0.05)

    async def act():
        async with redkiln.AsyncClient("http://127.0.0.1:9") as client:  # nobody listens there
            with pytest.raises(redkiln.WaitTimeout, match="has not ended"):
                await client.wait(JOB_ID, timeout_seconds=0.05)

    asyncio.run(act())  # not after its patience of 10 minutes


def test_a_job_can_be_named_by_its_name(run):
    async def act(client):
        events = [event.seq async for event in client.events("flowers", after_seq=5)]
        return await client.wait("flowers"), events, await client.artifacts("flowers")

    ended, events, artifacts = run(act)
    assert (ended.id, events, len(artifacts)) == (JOB_ID, [6], 2)
