"""Reports regularly that a long step is still running, because a silent job counts as stalled."""

import time
from collections.abc import Callable

BEAT_SECONDS = 30.0
"""Far shorter than the time after which the agent considers a job stalled."""


class Heartbeat:
    """Reports what is running, and for how long, at a bounded rate.

    Args:
        say: Receives the message, for people and for the agent.
        what: Name of the activity, such as "installing the requirements".
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
        """Report if it is time again; call this often."""
        now = self._clock()
        if now >= self._said_at + self._seconds:
            self._said_at = now
            self._say(f"still {self._what} after {now - self._began_at:.0f} s")
