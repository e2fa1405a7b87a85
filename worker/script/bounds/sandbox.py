"""Namespaces of a script's own, made by bubblewrap: users, mounts, processes, IPC.

Inside, other processes cannot be reached, `/dev/shm` and `/tmp` are the script's own, and no
socket of the host has a path. The network is the host's, and with it the abstract sockets. When the
first process ends, the kernel kills all others.

Source: bwrap(1), user_namespaces(7), pid_namespaces(7).
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from worker.script.bounds.processes import PROC_DIR
from worker.script.program.paths import LINK_PREFIX

PROGRAM = "bwrap"
DEVICES = ("kfd", "dri", "dxg", "nvidia*", "infiniband")
"""Nodes below /dev that programs need for GPUs and the network between them."""
SHARED_DIR, TEMPORARY_DIR = "/dev/shm", "/tmp"  # noqa: S108  # mount points in the namespace
PROBE_SECONDS = 10.0


@cache
def find_obstacle() -> str | None:
    """Return why this worker cannot make namespaces; None if it can. Tried once a process."""
    program = shutil.which(PROGRAM)
    if program is None:
        return "bubblewrap (bwrap) is not installed"
    words = build_sandbox(readable=["/usr", "/bin", "/lib", "/lib64"], writable=[], shm_bytes=4096)
    try:
        done = subprocess.run(
            [*words, "true"], capture_output=True, text=True, check=False, timeout=PROBE_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not work here: {error}"
    lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return None if done.returncode == 0 else f"bubblewrap does not work here: {lines[-1]}"


def build_sandbox(
    *,
    readable: Iterable[str],
    writable: Iterable[str],
    descriptors: Mapping[int, Path] | None = None,
    own_dir: Path | None = None,
    shm_bytes: int,
) -> list[str]:
    """Build the words before a command line that run it in separate namespaces.

    SIGTERM is ignored up to the command, which must be ready to be the first process.

    Args:
        readable: Files and folders that exist inside, read-only; missing ones are left out.
        writable: Files and folders that exist inside and can be changed.
        descriptors: Open folders, and their read-only paths inside.
        own_dir: Folder whose short links (`paths.shorten`) exist inside, too.
        shm_bytes: Size of shared memory, and of `/tmp`, which is in memory, too.
    """
    binds = dict.fromkeys(readable, "--ro-bind-try") | dict.fromkeys(writable, "--bind-try")
    return [
        "/usr/bin/env", "--ignore-signal=TERM", PROGRAM,
        "--unshare-user", "--unshare-pid", "--unshare-ipc",
        "--die-with-parent", "--as-pid-1", "--new-session", "--cap-drop", "ALL",
        "--size", str(shm_bytes), "--tmpfs", TEMPORARY_DIR,
        "--ro-bind", "/sys", "/sys", "--proc", "/proc", "--dev", "/dev",
        "--size", str(shm_bytes), "--tmpfs", SHARED_DIR,
        *(word for path in _find_devices() for word in ("--dev-bind", path, path)),
        *(word for path in sorted(binds) for word in (binds[path], path, path)),
        *_bind_descriptors(descriptors or {}),
        *_repeat_links(own_dir),
        "--remount-ro", "/", "--",
    ]  # fmt: skip


def measure_private(pids: Iterable[int], *, proc_dir: Path = PROC_DIR) -> dict[int, int]:
    """Return the bytes used in the folders in memory that only a sandbox sees, by device.

    Files without a name are included.

    Args:
        pids: Processes that may run in a sandbox.
        proc_dir: Folder in which the kernel shows processes.
    """
    outside = {folder: Path(folder).stat().st_dev for folder in (SHARED_DIR, TEMPORARY_DIR)}
    found = {}
    for pid in pids:
        for folder, device in outside.items():
            inside = proc_dir / str(pid) / "root" / folder.lstrip("/")
            with suppress(OSError):  # the process has ended
                if (own := inside.stat().st_dev) != device:
                    status = os.statvfs(inside)
                    found[own] = (status.f_blocks - status.f_bfree) * status.f_frsize
    return found


def measure_shared_memory() -> int:
    """Return the size of the worker's own shared memory, in bytes."""
    status = os.statvfs(SHARED_DIR)
    return status.f_frsize * status.f_blocks


def _find_devices() -> list[str]:
    return sorted(str(path) for name in DEVICES for path in Path("/dev").glob(name))


def _bind_descriptors(descriptors: Mapping[int, Path]) -> Iterator[str]:
    for number, path in descriptors.items():
        yield from ("--ro-bind-fd", str(number), str(path))


def _repeat_links(own_dir: Path | None) -> Iterator[str]:
    if own_dir is None:
        return
    own = own_dir.resolve()
    for link in Path(tempfile.gettempdir()).glob(f"{LINK_PREFIX}*"):
        if link.is_symlink() and link.resolve().is_relative_to(own):
            yield from ("--symlink", str(link.readlink()), str(link))
