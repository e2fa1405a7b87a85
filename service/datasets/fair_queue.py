"""A queue in which every project gets its turn, however much another one has put in."""

import threading
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass


@dataclass(eq=False)
class Waiting:
    """A data set in the queue.

    Attributes:
        is_large: Whether it may take long; only the queue changes it.
    """

    dataset_id: str
    project: str
    is_large: bool = False


class FairQueue:
    """Hands out data sets to threads, one project after another.

    A project never has all threads at once, so that its data sets do not keep those of another
    waiting for hours. Nor do its large ones keep its small ones waiting: one of the threads that it
    may have takes no large ones, and a small one that takes long gives it up (`may_continue`). A
    project's data sets of one kind keep their order.

    Args:
        num_takers: Number of threads that take items.
    """

    def __init__(self, num_takers: int) -> None:
        self._most = max(1, num_takers - 1)
        self._most_large = max(1, num_takers - 2)
        self._waiting: OrderedDict[str, deque[Waiting]] = OrderedDict()
        self._taken: Counter[str] = Counter()
        self._taken_large: Counter[str] = Counter()
        self._is_closed = False
        self._changed = threading.Condition()

    def put(self, item: Waiting) -> None:
        """Add a data set behind the others of its project."""
        with self._changed:
            self._waiting.setdefault(item.project, deque()).append(item)
            self._changed.notify()

    def take(self) -> Waiting | None:
        """Wait for a data set, and return it; None once the queue is closed.

        Every data set that is taken must be given back with `done`.
        """
        with self._changed:
            while not self._is_closed:
                if (found := self._find()) is not None:
                    return found
                self._changed.wait()
            return None

    def may_continue(self, item: Waiting) -> bool:
        """Return whether a data set that takes long may keep its thread.

        It is then counted as a large one, as far as its project may have another large one.
        Otherwise it may continue only while no small one of its project waits.
        """
        with self._changed:
            if item.is_large:
                return True
            if self._taken_large[item.project] < self._most_large:
                item.is_large = True
                self._taken_large[item.project] += 1
                return True
            waiting = self._waiting.get(item.project, ())
            return all(other.is_large for other in waiting)

    def done(self, item: Waiting) -> None:
        """Note that a thread has ended its work on a data set."""
        with self._changed:
            self._taken[item.project] -= 1
            self._taken_large[item.project] -= item.is_large
            self._changed.notify()

    def close(self) -> None:
        """Let every taker return."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _find(self) -> Waiting | None:
        """Return the next data set of the first project that may have another thread for it."""
        for project, waiting in self._waiting.items():
            item = self._choose(project, waiting)
            if item is None:
                continue
            waiting.remove(item)
            del self._waiting[project]
            if waiting:
                self._waiting[project] = waiting  # behind the other projects
            self._taken[project] += 1
            self._taken_large[project] += item.is_large
            return item
        return None

    def _choose(self, project: str, waiting: deque[Waiting]) -> Waiting | None:
        if self._taken[project] >= self._most:
            return None
        may_be_large = self._taken_large[project] < self._most_large
        return next((item for item in waiting if may_be_large or not item.is_large), None)
