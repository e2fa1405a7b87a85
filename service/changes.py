"""What follows a committed transaction: streams of the changed jobs wake, and the doorbell rings.

Rules record changes in the session's outbox. The database publishes them after the commit, so that
a rolled-back change is never announced. What another service process has changed is found by
`service.lookout`, which wakes the same streams.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from anyio import to_thread
from sqlmodel import Session

Found = TypeVar("Found")

_ALL = ""
"""Stands for every job among the followed ids."""


@dataclass
class Outbox:
    """What a transaction will announce after its commit.

    Attributes:
        changed: Ids of jobs whose view has changed.
        queued: Ids of jobs that now wait for a worker.
        ended: Ids of jobs that have ended.
    """

    changed: set[str] = field(default_factory=set)
    queued: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)


def outbox(session: Session) -> Outbox:
    """Return the outbox of the session's transaction."""
    box: Outbox = session.info.setdefault("outbox", Outbox())
    return box


class Changes:
    """Wakes the coroutines that follow jobs."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._followers: dict[str, set[asyncio.Event]] = {}
        self._is_closed = False
        self._num_wakes = 0
        self._reads: dict[Hashable, asyncio.Task[Any]] = {}

    @property
    def is_closed(self) -> bool:
        """Whether the service is stopping; followers then end their streams."""
        return self._is_closed

    def followed(self) -> list[str]:
        """Return the ids of the jobs that somebody follows."""
        return [job_id for job_id in self._followers if job_id != _ALL]

    def start(self) -> None:
        """Use the running event loop from now on."""
        self._loop = asyncio.get_running_loop()
        self._is_closed = False

    def publish(self, job_ids: set[str]) -> None:
        """Wake the followers of jobs. May be called from any thread."""
        if job_ids:
            self._call(lambda: self._wake(job_ids))

    def close(self) -> None:
        """Wake all followers for the last time. May be called from any thread or signal handler."""
        self._is_closed = True
        self._call(lambda: self._wake(set(self._followers)))

    @contextmanager
    def follow_all(self) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever any job changes."""
        with self.follow(_ALL) as event:
            yield event

    @contextmanager
    def follow(self, job_id: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever the job changes; clear it before reading the job."""
        event = asyncio.Event()
        self._followers.setdefault(job_id, set()).add(event)
        try:
            yield event
        finally:
            followers = self._followers[job_id]
            followers.discard(event)
            if not followers:
                del self._followers[job_id]

    async def read_once(self, key: Hashable, read: Callable[[], Found]) -> Found:
        """Run `read` in a thread, once for all followers that one change woke.

        It began after the newest change was announced, so it shows every announced change.

        Args:
            key: Equal for followers that would read the same.
            read: Reads from the database.
        """
        place = (key, self._num_wakes)
        task: asyncio.Task[Found] | None = self._reads.get(place)
        if task is None:
            task = asyncio.create_task(to_thread.run_sync(read))
            self._reads[place] = task
            task.add_done_callback(lambda _: self._reads.pop(place))
        return await asyncio.shield(task)  # the others still wait if this stream ends

    def _call(self, function: Callable[[], None]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function)

    def _wake(self, job_ids: set[str]) -> None:
        self._num_wakes += 1
        for job_id in (*job_ids, _ALL):
            for event in self._followers.get(job_id, ()):
                event.set()
