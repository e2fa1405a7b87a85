"""What the first process of a script's namespace reports to the supervisor; see `confine.First`."""

import json
import os
import select
from dataclasses import dataclass

from worker.script.bounds.confine import READY

MAX_BYTES = 1000


@dataclass(frozen=True)
class End:
    """How a program ended.

    Attributes:
        status: Exit status; negative: the signal that ended it.
        left: Number of processes that it left running.
    """

    status: int
    left: int


class FirstProcessPipe:
    """A pipe from the first process.

    Attributes:
        target: End that the first process writes to.
    """

    def __init__(self) -> None:
        self._source, self.target = os.pipe()
        self._received = b""

    def close_target(self) -> None:
        """Close this process's copy of the end that the other one writes to."""
        os.close(self.target)

    def has_begun(self) -> bool:
        """Return whether the program exists, so that it can receive signals."""
        while len(self._received) < MAX_BYTES and select.select([self._source], [], [], 0)[0]:
            chunk = os.read(self._source, MAX_BYTES)
            if not chunk:
                break
            self._received += chunk
        return self._received.startswith(READY)

    def read_end(self) -> End | None:
        """Return how the program ended, and close the pipe; None if the process was killed."""
        self.has_begun()
        os.close(self._source)
        try:
            return End(**json.loads(self._received.removeprefix(READY)))
        except (ValueError, TypeError):
            return None
