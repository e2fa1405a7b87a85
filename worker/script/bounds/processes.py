"""The processes that a script started, however they try to detach themselves.

The process that runs the script becomes the reaper of orphans (PR_SET_CHILD_SUBREAPER), so even a
child that forks twice and starts its own session stays its descendant.

Source: proc_pid_stat(5), prctl(2).
"""

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
PR_SET_DUMPABLE = 4
PROC_DIR = Path("/proc")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PARENT, _THREADS = 1, 17
POLL_SECONDS = 0.01


@dataclass(frozen=True)
class Found:
    """A tree of processes and what it uses.

    Attributes:
        memory_bytes: The processes' private pages, plus the largest set of shared pages once.
    """

    pids: tuple[int, ...] = ()
    num_threads: int = 0
    memory_bytes: int = 0


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def hide_memory() -> None:
    """Prevent other processes of this user from reading this one's memory and environment."""
    _prctl(PR_SET_DUMPABLE, 0)


def find_descendants(root: int, *, proc_dir: Path = PROC_DIR) -> Found:
    """Find all descendants of a process, except zombies."""
    children: dict[int, list[int]] = {}
    threads: dict[int, int] = {}
    for pid, fields in _read_stats(proc_dir):
        if len(fields) > _THREADS and fields[0] != "Z":
            children.setdefault(int(fields[_PARENT]), []).append(pid)
            threads[pid] = int(fields[_THREADS])
    below: list[int] = []
    waiting = [root]
    while waiting:
        found = children.get(waiting.pop(), [])
        below += found
        waiting += found
    own, shared = _measure(below, proc_dir)
    return Found(tuple(below), sum(threads[pid] for pid in below), own + shared)


def end_strays(job_root: Path, *, proc_dir: Path = PROC_DIR) -> int:
    """Kill what a script left running if its supervisor was killed.

    The processes are recognised by a variable that every script of a job receives.

    Returns:
        The number of killed processes.
    """
    mark = f"REDKILN_OUT={job_root}/".encode()
    strays = []
    for pid in _list_pids(proc_dir):
        try:
            variables = (proc_dir / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended meanwhile, or belongs to another user
        if any(variable.startswith(mark) for variable in variables):
            strays.append(pid)
    _signal(tuple(strays), signal.SIGKILL)
    return len(strays)


def end_descendants(
    *, grace_seconds: float, waited_for: int | None = None, is_told: bool = False
) -> int:
    """End all descendants: SIGTERM first, then SIGKILL for those left after the grace period.

    Args:
        grace_seconds: Time between the two signals.
        waited_for: PID of a child whose exit status another caller collects.
        is_told: Whether the processes have received SIGTERM already.

    Returns:
        The number of descendants found at first.
    """
    first = find_descendants(os.getpid()).pids
    if not is_told:
        _signal(first, signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    while (left := find_descendants(os.getpid()).pids) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        _reap(waited_for)
    while left:
        # Repeat, because a process may have forked between the look and the signal.
        _signal(left, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
        _reap(waited_for)
        left = find_descendants(os.getpid()).pids
    return len(first)


def _measure(pids: list[int], proc_dir: Path) -> tuple[int, int]:
    own = shared = 0
    for pid in pids:
        try:
            resident, mapped = (
                int(number) for number in (proc_dir / str(pid) / "statm").read_text().split()[1:3]
            )
        except (OSError, ValueError):
            continue  # it has ended meanwhile
        own += (resident - mapped) * _PAGE_BYTES
        shared = max(shared, mapped * _PAGE_BYTES)
    return own, shared


def _signal(pids: tuple[int, ...], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue  # it has ended meanwhile


def _reap(waited_for: int | None) -> None:
    """Reap orphans that have ended."""
    for pid in find_zombies(os.getpid()):
        if pid != waited_for:
            with suppress(ChildProcessError):  # another thread has reaped it
                os.waitpid(pid, os.WNOHANG)


def find_zombies(parent: int, *, proc_dir: Path = PROC_DIR) -> list[int]:
    """Return a process's children that have ended and were not reaped."""
    zombies = []
    for pid, fields in _read_stats(proc_dir):
        if len(fields) > _PARENT and fields[0] == "Z" and int(fields[_PARENT]) == parent:
            zombies.append(pid)
    return zombies


def _read_stats(proc_dir: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield every process with the fields of its `stat` file, starting with the state."""
    for pid in _list_pids(proc_dir):
        try:
            fields = (proc_dir / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        yield pid, fields


def _list_pids(proc_dir: Path) -> list[int]:
    with os.scandir(proc_dir) as entries:
        return [int(entry.name) for entry in entries if entry.name.isdecimal()]


def _prctl(option: int, value: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(option, value, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
