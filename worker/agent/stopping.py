"""Why an attempt is stopped before its end, and how everyone who runs a part of it hears of it."""

import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum

LOOK_SECONDS = 0.5
"""Pause between two looks at whether an attempt that waits for another one is to stop."""


class StopReason(IntEnum):
    """Why; of several the highest counts, as it decides what may still be told to the service."""

    STALLED = 1
    TOO_LONG = 2
    REFUSED = 3
    SHUTDOWN = 4
    PAUSED = 5
    CANCELLED = 6
    SUPERSEDED = 7


class Stopped(Exception):  # noqa: N818  # it is no error: somebody asked for it
    """The attempt was asked to stop while it did something that cannot be interrupted by signal."""


class StopSignal:
    """One attempt's stop request: asked from any thread, seen by polling or by its descriptor."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: StopReason | None = None
        self._event_fd: int | None = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    @property
    def reason(self) -> StopReason | None:
        """The highest reason so far; None while the attempt may go on."""
        return self._reason

    def request(self, reason: StopReason) -> None:
        """Ask the attempt to stop; the same again, or a lower reason, changes nothing."""
        with self._lock:
            if self._reason is not None and self._reason >= reason:
                return
            self._reason = reason
            if self._event_fd is not None:
                os.eventfd_write(self._event_fd, 1)

    def check(self, *, least: StopReason = StopReason.STALLED) -> None:
        """Return while the attempt may go on.

        Args:
            least: lower reasons are not asked about.

        Raises:
            Stopped: it was asked to stop.
        """
        if self._reason is not None and self._reason >= least:
            raise Stopped(self._reason.name)

    def wait(self, timeout_seconds: float) -> None:
        """Pause; shorter if the reason changes.

        Raises:
            Stopped: the attempt was asked to stop.
        """
        self.check()
        select.select([self.fileno()], [], [], timeout_seconds)
        self.check()

    def fileno(self) -> int:
        """A descriptor that is readable when the reason has changed since the last `clear`."""
        if self._event_fd is None:
            raise ValueError("the attempt is over")
        return self._event_fd

    def clear(self) -> None:
        """Wait for the next change of the reason."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.fileno())

    def close(self) -> None:
        """Close the descriptor; requests are still noted."""
        with self._lock:
            if self._event_fd is not None:
                os.close(self._event_fd)
            self._event_fd = None


@contextmanager
def locked(lock: threading.Lock, *, check: Callable[[], object]) -> Iterator[None]:
    """Hold a lock that another attempt may keep for long.

    Args:
        lock: free for anyone again afterwards.
        check: called now and then while it is waited for; what it raises ends the wait.
    """
    while not lock.acquire(timeout=LOOK_SECONDS):
        check()
    try:
        yield
    finally:
        lock.release()
