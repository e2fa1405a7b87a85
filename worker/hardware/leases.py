"""Leases of GPUs: one locked file for each GPU, in a folder that all workers of a host share.

The lock (flock) belongs to an open file description. A process that inherits its descriptor also
holds the lock, so a lease ends with the last process that has it: not with the agent that took it,
and at once when the last one is killed. The file's content is for people and for `GET /v1/gpus`;
only the lock decides.

Source: flock(2); Linux Documentation/admin-guide/sysctl/fs.rst (protected_regular).
"""

import fcntl
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from worker.jobdir import LEASES_VARIABLE

LOCK_SUFFIX = ".lock"
LOOK_SECONDS = 0.002
"""How long `find_holder`, which briefly shares a GPU's lock, takes at most on a busy machine."""
SHARED_FILE_MODE = 0o666
SHARED_DIR_MODE = 0o1777
"""Workers of one host may run as different users."""


class Holder(BaseModel):
    """The holder of a lease.

    Attributes:
        pid: PID of the process that took it, in its container's PID namespace.
    """

    worker_id: str
    attempt_id: str | None = None
    pid: int = Field(default_factory=os.getpid)
    since: datetime = Field(default_factory=lambda: datetime.now(UTC))


class GpuLease:
    """One locked GPU; `close` releases this process's hold on it."""

    def __init__(self, key: str, descriptor: int) -> None:
        self.key = key
        self._descriptor: int | None = descriptor

    def fileno(self) -> int:
        """Return the descriptor that a child has to inherit.

        Raises:
            ValueError: The lease was closed.
        """
        if self._descriptor is None:
            raise ValueError(f"the lease of {self.key} has been released")
        return self._descriptor

    def describe(self, holder: Holder) -> None:
        """Write the holder into the file."""
        content = holder.model_dump_json().encode() + b"\n"
        os.ftruncate(self.fileno(), 0)
        os.pwrite(self.fileno(), content, 0)

    def close(self) -> None:
        """Release this process's hold; the lease ends when no other process has inherited it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


class LeaseFolder:
    """The locks of a host. While it is open, cleaners of old files do not touch the folder.

    Raises:
        OSError: The folder cannot be created or written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        make_shared_dir(root)
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        # systemd-tmpfiles skips a locked folder.
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        self._descriptor: int | None = descriptor

    def take(self, keys: Iterable[str]) -> list[GpuLease] | None:
        """Lease all of these GPUs, or none.

        No process waits for a lock while it holds another, so there are no deadlocks; a
        process that gets none tries again later.

        Raises:
            OSError: A lock file cannot be created.
        """
        with ExitStack() as taken:
            leases: list[GpuLease] = []
            for key in sorted(set(keys)):
                lease = self._try(key)
                if lease is None:
                    return None
                taken.callback(lease.close)
                leases.append(lease)
            taken.pop_all()
        return leases

    def find_holder(self, key: str) -> Holder | None:
        """Return the holder of a GPU's lease; None if it is free, or the holder is unknown."""
        try:
            descriptor = os.open(self._path(key), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            if _lock(descriptor, fcntl.LOCK_SH):
                return None
            return Holder.model_validate_json(os.pread(descriptor, 4096, 0))
        except ValidationError:
            return None
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close the folder; leases continue to exist."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _path(self, key: str) -> Path:
        return self.root / f"{key}{LOCK_SUFFIX}"

    def _try(self, key: str) -> GpuLease | None:
        path = self._path(key)
        while True:
            descriptor = open_shared(path)
            if not _lock_out(descriptor):
                os.close(descriptor)
                return None
            if _is_still(path, descriptor):
                return GpuLease(key, descriptor)
            os.close(descriptor)  # the file was removed meanwhile, so its lock protects nothing


def release(leases: Iterable[GpuLease]) -> None:
    """Close all leases."""
    for lease in leases:
        lease.close()


def inherited_leases(environ: Mapping[str, str]) -> tuple[int, ...]:
    """Return the leases that this process was started with, as `pass_fds` for its own children."""
    entries = environ.get(LEASES_VARIABLE, "").split(",")
    return tuple(number for number in map(int, filter(str.isdecimal, entries)) if _is_open(number))


def make_shared_dir(path: Path) -> None:
    """Create a folder in which every user may create files.

    Raises:
        OSError: The folder cannot be created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.mkdir()
        path.chmod(SHARED_DIR_MODE)  # independent of the umask


def open_shared(path: Path) -> int:
    """Open a file of such a folder for reading and writing; create it for all users if necessary.

    In a folder with the sticky bit the kernel refuses O_CREAT for another user's file, so O_CREAT
    is used only if the file does not exist.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        with suppress(FileNotFoundError):
            return os.open(path, flags)
        with suppress(FileExistsError):
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, SHARED_FILE_MODE)
            os.fchmod(descriptor, SHARED_FILE_MODE)  # independent of the umask
            return descriptor


def _lock_out(descriptor: int) -> bool:
    """Lock it exclusively; retry once in case `find_holder` was sharing the lock."""
    if _lock(descriptor, fcntl.LOCK_EX):
        return True
    time.sleep(LOOK_SECONDS)
    return _lock(descriptor, fcntl.LOCK_EX)


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_open(descriptor: int) -> bool:
    """Return whether the process has this lease; the variable may reach processes without it."""
    try:
        return Path(f"/proc/self/fd/{descriptor}").readlink().suffix == LOCK_SUFFIX
    except OSError:
        return False


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
