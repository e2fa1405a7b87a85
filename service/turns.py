"""Bounds how many requests do slow work at once.

A request that waits holds one of the server's threads, of which there are 40. Without a bound on
those that wait, 40 slow requests would stop all others, reports of workers included.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from service.errors import Unavailable

RETRY_SECONDS = 10


class Turns:
    """Lets a few requests work at once and a few more wait, and refuses the others.

    Args:
        what: Words for the message, such as `pictures are being drawn`.
        at_once: Number of requests that work at once.
        waiting: Number of requests that may wait.
    """

    def __init__(self, what: str, *, at_once: int = 2, waiting: int = 6) -> None:
        self._what = what
        self._places = threading.BoundedSemaphore(at_once + waiting)
        self._working = threading.BoundedSemaphore(at_once)

    @contextmanager
    def take(self) -> Iterator[None]:
        """Wait for a turn, and hold it during the body.

        Raises:
            Unavailable: Too many others wait already.
        """
        if not self._places.acquire(blocking=False):
            message = f"too many {self._what}; try again"
            raise Unavailable(message, retry_after_seconds=RETRY_SECONDS)
        try:
            with self._working:
                yield
        finally:
            self._places.release()
