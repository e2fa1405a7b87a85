"""Why an attempt is stopped early, and the signal that reaches every part of it."""

import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum

LOOK_SECONDS = 0.5
"""How often an attempt that waits for another one checks whether it should stop."""


class StopReason(IntEnum):
    """Why; the highest reason wins, because it decides what may still be reported."""

    STALLED = 1
    TOO_LONG = 2
    REFUSED = 3
    SHUTDOWN = 4
    PAUSED = 5
    CANCELLED = 6
    SUPERSEDED = 7


class Stopped(Exception):  # noqa: N818  # not an error: the stop was requested
    """The attempt was asked to stop during an operation that a signal cannot interrupt."""


class StopSignal:
    """One attempt's stop request: made from any thread, seen by polling or by its descriptor."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: StopReason | None = None
        self._event_fd: int | None = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    @property
    def reason(self) -> StopReason | None:
        """The highest reason so far; None while the attempt may continue."""
        return self._reason

    def request(self, reason: StopReason) -> None:
        """Ask the attempt to stop; repeating it, or a lower reason, changes nothing."""
        with self._lock:
            if self._reason is not None and self._reason >= reason:
                return
            self._reason = reason
            if self._event_fd is not None:
                os.eventfd_write(self._event_fd, 1)

    def check(self, *, least: StopReason = StopReason.STALLED) -> None:
        """Return normally while the attempt may continue.

        Args:
            least: Lowest reason that counts.

        Raises:
            Stopped: The attempt was asked to stop.
        """
        if self._reason is not None and self._reason >= least:
            raise Stopped(self._reason.name)

    def wait(self, timeout_seconds: float) -> None:
        """Pause, but return early if the reason changes.

        Raises:
            Stopped: The attempt was asked to stop.
        """
        self.check()
        select.select([self.fileno()], [], [], timeout_seconds)
        self.check()

    def fileno(self) -> int:
        """Return a descriptor that is readable once the reason has changed since `clear`."""
        if self._event_fd is None:
            raise ValueError("the attempt has ended")
        return self._event_fd

    def clear(self) -> None:
        """Make the descriptor unreadable until the reason changes again."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.fileno())

    def close(self) -> None:
        """Close the descriptor; requests are still recorded."""
        with self._lock:
            if self._event_fd is not None:
                os.close(self._event_fd)
            self._event_fd = None


@contextmanager
def locked(lock: threading.Lock, *, check: Callable[[], object]) -> Iterator[None]:
    """Hold a lock that another attempt may hold for a long time.

    Args:
        lock: Lock to acquire and to release afterwards.
        check: Called regularly during the wait; an exception ends the wait.
    """
    while not lock.acquire(timeout=LOOK_SECONDS):
        check()
    try:
        yield
    finally:
        lock.release()
