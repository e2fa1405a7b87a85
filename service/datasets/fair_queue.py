"""A queue in which every project gets its turn, however much another one has put in."""

import threading
from collections import Counter, OrderedDict, deque


class FairQueue:
    """Hands out data sets to threads, one project after another.

    A project never has all threads at once, so that large data sets of one project do not keep
    those of another waiting for hours.

    Args:
        num_takers: Number of threads that take items.
    """

    def __init__(self, num_takers: int) -> None:
        self._most = max(1, num_takers - 1)
        self._waiting: OrderedDict[str, deque[str]] = OrderedDict()
        self._taken: Counter[str] = Counter()
        self._is_closed = False
        self._changed = threading.Condition()

    def put(self, dataset_id: str, *, project: str) -> None:
        """Add a data set behind the others of its project."""
        with self._changed:
            self._waiting.setdefault(project, deque()).append(dataset_id)
            self._changed.notify()

    def take(self) -> tuple[str, str] | None:
        """Wait for a data set, and return it with its project; None once the queue is closed.

        Every data set that is taken must be given back with `done`.
        """
        with self._changed:
            while not self._is_closed:
                if (found := self._find()) is not None:
                    return found
                self._changed.wait()
            return None

    def done(self, project: str) -> None:
        """Note that a thread has ended its work for a project."""
        with self._changed:
            self._taken[project] -= 1
            self._changed.notify()

    def close(self) -> None:
        """Let every taker return."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _find(self) -> tuple[str, str] | None:
        """Return the next data set of the first project that may have another thread."""
        for project, waiting in self._waiting.items():
            if self._taken[project] >= self._most:
                continue
            dataset_id = waiting.popleft()
            del self._waiting[project]
            if waiting:
                self._waiting[project] = waiting  # behind the other projects
            self._taken[project] += 1
            return dataset_id, project
        return None
