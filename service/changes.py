"""What follows a committed transaction: streams of the changed jobs wake, and the doorbell rings.

Rules record changes in the session's outbox. The database publishes them after the commit, so that
a rolled-back change is never announced. What another service process has changed is found by
`service.lookout`, which wakes the same streams.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlmodel import Session

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

    def _call(self, function: Callable[[], None]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function)

    def _wake(self, job_ids: set[str]) -> None:
        for job_id in (*job_ids, _ALL):
            for event in self._followers.get(job_id, ()):
                event.set()
