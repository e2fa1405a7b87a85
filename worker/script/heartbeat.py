"""Says now and then that something long goes on: a job that is silent is taken for dead."""

import time
from collections.abc import Callable

BEAT_SECONDS = 30.0
"""Far below what the agent takes for a stall."""


class Heartbeat:
    """Says what goes on, and for how long, at most once in a while.

    Args:
        say: to people and to the agent.
        what: goes on, as in "installing the requirements".
    """

    def __init__(
        self,
        say: Callable[[str], None],
        what: str,
        *,
        seconds: float = BEAT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say = say
        self._what = what
        self._seconds = seconds
        self._clock = clock
        self._began_at = self._said_at = clock()

    def beat(self) -> None:
        """To be called often; it says something when it is time again."""
        now = self._clock()
        if now >= self._said_at + self._seconds:
            self._said_at = now
            self._say(f"still {self._what} after {now - self._began_at:.0f} s")
