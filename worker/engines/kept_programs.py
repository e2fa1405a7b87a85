"""Kernels that tinygrad generated, kept for the next trainer.

tinygrad generates the source of kernels in Python, which takes most of the time before the first
steps. It remembers them in a dictionary, under keys that contain all operations of the kernel, the
device's features and the settings of the code generator. `KeptPrograms` replaces this dictionary
and adds a folder.
"""

import hashlib
import os
import pickle
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

BUDGET_BYTES = 256 * 1024**2
"""Size of all programs of a device; the least recently used are removed first. A small network of
convolutions has about 25 programs of 0.5 MB together."""
DIGEST_BYTES = hashlib.sha256().digest_size


class KeptPrograms(dict[tuple[Any, ...], Any]):
    """tinygrad's programs by key; a program that is not in memory is looked up in the folder.

    Only trainers of this worker write the folder, so its files may be unpickled. Each begins with
    the digest of the rest, so a damaged file is generated again.

    Args:
        folder: Folder of one device and one version of tinygrad.
        budget_bytes: Size above which files are removed.
    """

    def __init__(self, folder: Path, *, budget_bytes: int = BUDGET_BYTES) -> None:
        super().__init__()
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        _prune(folder, budget_bytes)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and self.get(key) is not None

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        """Return a program; `default` if it must be generated."""
        if not super().__contains__(key) and (program := self._load(key)) is not None:
            super().__setitem__(key, program)
        return super().get(key, default)

    def __setitem__(self, key: tuple[Any, ...], program: Any) -> None:
        super().__setitem__(key, program)
        content = pickle.dumps(program)
        # A program that cannot be kept, on a full disk for instance, is generated again.
        with suppress(OSError), TemporaryDirectory(dir=self._folder.parent) as folder:
            path = Path(folder) / "program"
            path.write_bytes(hashlib.sha256(content).digest() + content)
            path.replace(self._path(key))

    def _load(self, key: tuple[Any, ...]) -> Any:
        path = self._path(key)
        try:
            content = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        digest, rest = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        if hashlib.sha256(rest).digest() != digest:
            return None
        return pickle.loads(rest)  # noqa: S301  # see the class

    def _path(self, key: tuple[Any, ...]) -> Path:
        return self._folder / hashlib.sha256(repr(key).encode()).hexdigest()


def _prune(folder: Path, budget_bytes: int) -> None:
    """Remove the least recently used files above the budget; other trainers may do the same."""
    with suppress(FileNotFoundError):
        files = sorted(((path.stat(), path) for path in folder.iterdir()), key=_used_at)
        excess = sum(stat.st_size for stat, _ in files) - budget_bytes
        for stat, path in files:
            if excess <= 0:
                break
            path.unlink()
            excess -= stat.st_size


def _used_at(found: tuple[os.stat_result, Path]) -> int:
    return found[0].st_mtime_ns
