"""Followers that one change woke share a read; one that a later change woke reads again."""

import asyncio
import threading

import pytest

from service.changes import Changes


async def wake(changes, job_id):
    changes.publish({job_id})
    await asyncio.sleep(0)  # it is announced in the loop's next round
    await asyncio.sleep(0)


def test_followers_that_one_change_woke_share_a_read():
    reads = []

    async def follow_by_many():
        changes = Changes()
        changes.start()
        asked = [changes.read_once("job", lambda: reads.append(1) or len(reads)) for _ in range(50)]
        first = await asyncio.gather(*asked)
        return first, await changes.read_once("job", lambda: "read again")

    first, second = asyncio.run(follow_by_many())
    assert first == [1] * 50
    assert second == "read again"


def test_a_follower_of_a_later_change_does_not_join_a_read_that_began_before():
    began, may_end = threading.Event(), threading.Event()

    def read_old():
        began.set()
        assert may_end.wait(30)
        return "old"

    async def change_while_reading():
        changes = Changes()
        changes.start()
        old = asyncio.create_task(changes.read_once("job", read_old))
        await asyncio.to_thread(began.wait, 30)
        await wake(changes, "another job")
        new = await changes.read_once("job", lambda: "new")
        may_end.set()
        return await old, new

    assert asyncio.run(change_while_reading()) == ("old", "new")


def test_a_follower_that_leaves_does_not_stop_the_read_of_others():
    began, may_end = threading.Event(), threading.Event()

    def read():
        began.set()
        assert may_end.wait(30)
        return "found"

    async def leave_early():
        changes = Changes()
        leaver, stayer = (asyncio.create_task(changes.read_once("job", read)) for _ in range(2))
        await asyncio.to_thread(began.wait, 30)
        leaver.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaver
        may_end.set()
        return await stayer

    assert asyncio.run(leave_early()) == "found"


def test_an_error_reaches_every_follower():
    def fail():
        raise LookupError("there is no such job")

    async def follow():
        changes = Changes()
        asked = [changes.read_once("job", fail) for _ in range(2)]
        return await asyncio.gather(*asked, return_exceptions=True)

    assert [type(error) for error in asyncio.run(follow())] == [LookupError] * 2
