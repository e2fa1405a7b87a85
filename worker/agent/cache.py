"""The worker's cache of fetched data sets: entries by digest, a byte budget, what is used stays."""

import os
import shutil
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from worker.agent.stopping import locked

PARTIAL = ".partial"
"""Suffix of an entry that is being filled; kept after a failure, so that it can be resumed."""


class CacheFull(Exception):  # noqa: N818  # reads as what it is
    """There is no room for an entry, even with all that is not in use gone."""


class DatasetCache:
    """Folders by key below one root. One process owns the root; its threads share this object.

    Args:
        budget_bytes: entries are removed, least recently used first, to stay below.
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
        """The entry's folder, which stays as long as it is held.

        Args:
            key: names the content; the same key always means the same bytes.
            size_bytes: expected size.
            fill: writes the content into the folder that it is given, which may hold part of it.
            check: called now and then while another thread fills it; what it raises ends the wait.

        Raises:
            CacheFull: the budget does not allow it.
            Exception: whatever `fill` or `check` raises; the entry is then not there.
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
                f"{size_bytes} bytes more do not fit into the data-set cache of "
                f"{self._budget_bytes} bytes; raise REDKILN_CACHE_BYTES"
            )


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
