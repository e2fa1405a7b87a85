"""The worker's data-set cache: entries by digest, a byte budget, and entries in use are kept."""

import os
import shutil
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from worker.agent.stopping import locked

PARTIAL = ".partial"
"""Suffix of an entry that is being filled; a failed one is kept so that it can be resumed."""


class CacheFull(Exception):  # noqa: N818  # the name states the fault
    """An entry does not fit, even with every unused entry removed."""


class DatasetCache:
    """Folders below one root, by key. One process owns the root; its threads share this object.

    Args:
        budget_bytes: Total size; the least recently used entries are removed to stay below it.
    """

    def __init__(self, root: Path, *, budget_bytes: int) -> None:
        self._root = root
        self._budget_bytes = budget_bytes
        self._lock = threading.Lock()
        self._filling: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._users: Counter[str] = Counter()

    @contextmanager
    def hold(
        self,
        key: str,
        *,
        size_bytes: int,
        fill: Callable[[Path], None],
        check: Callable[[], object] = lambda: None,
    ) -> Iterator[Path]:
        """Yield the entry's folder, which is not removed while it is held.

        Args:
            key: Name of the content; the same key always means the same bytes.
            size_bytes: Expected size of the content.
            fill: Writes the content into a given folder, which may already contain part of it.
            check: Called regularly while another thread fills it; an exception ends the wait.

        Raises:
            CacheFull: The entry does not fit into the budget.
            Exception: Anything that `fill` or `check` raises; the entry does not exist then.
        """
        with self._lock:
            self._users[key] += 1
            filling = self._filling[key]
        try:
            with locked(filling, check=check):
                yield_path = self._ensure(key, size_bytes=size_bytes, fill=fill)
            yield yield_path
        finally:
            with self._lock:
                self._users[key] -= 1

    def _ensure(self, key: str, *, size_bytes: int, fill: Callable[[Path], None]) -> Path:
        path = self._root / key
        if not path.exists():
            partial = self._root / (key + PARTIAL)
            with self._lock:
                self._make_room(max(0, size_bytes - _size(partial)))
            partial.mkdir(parents=True, exist_ok=True)
            fill(partial)
            partial.rename(path)
        os.utime(path)
        return path

    def _make_room(self, size_bytes: int) -> None:
        entries = sorted(self._root.iterdir(), key=lambda path: path.stat().st_mtime)
        sizes = {path: _size(path) for path in entries}
        excess = sum(sizes.values()) + size_bytes - self._budget_bytes
        for path in entries:
            if excess <= 0:
                return
            if not self._users[path.name.removesuffix(PARTIAL)]:
                shutil.rmtree(path)
                excess -= sizes[path]
        if excess > 0:
            raise CacheFull(
                f"the data-set cache of {self._budget_bytes} bytes has no room for {size_bytes} "
                "more bytes; increase REDKILN_CACHE_BYTES"
            )


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
