"""A control group of an attempt's own, in which its user's code runs.

One write ends every process in it, however a process has detached itself and whatever it has done
to its environment. The worker needs no privilege for this if its own control group belongs to its
user: in a unit of systemd with `Delegate=yes`, or below `systemd --user`. Containers have no such
group, because they see all groups read-only.

Source: cgroups(7), Documentation/admin-guide/cgroup-v2.rst of Linux (cgroup.kill since 5.14).
"""

import hashlib
import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from worker.script.bounds.processes import POLL_SECONDS, PROC_DIR

ENTER = 'echo 0 > "$0/cgroup.procs" && exec "$@"'
END_SECONDS = 10.0
"""How long killed processes may take to end; one that waits for a device may take longer."""


@dataclass(frozen=True)
class ControlGroup:
    """A control group; it need not exist yet."""

    path: Path

    @classmethod
    def of(cls, job_root: Path) -> "ControlGroup | None":
        """Return the group of a job directory; None if the worker cannot make groups."""
        parent = find_parent()
        return (
            None if parent is None else cls(parent / f"{_prefix(job_root.parent)}{job_root.name}")
        )

    def make(self) -> None:
        """Create the group, unless it exists.

        Raises:
            OSError: The kernel refuses.
        """
        self.path.mkdir(exist_ok=True)

    def end(self) -> int:
        """Kill all processes of the group, wait until they have ended, and remove the group.

        Returns:
            The number of processes that it had.
        """
        try:
            found = (self.path / "cgroup.procs").read_text().split()
            (self.path / "cgroup.kill").write_text("1")
            deadline = time.monotonic() + END_SECONDS
            while self._has_processes() and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
            for folder, _, _ in os.walk(self.path, topdown=False):
                Path(folder).rmdir()
        except FileNotFoundError:
            return 0
        except OSError as error:
            import structlog  # every script waits for what this module imports

            log = structlog.get_logger(__name__)
            log.warning("a control group is left", group=str(self.path), error=str(error))
            return 0
        return len(found)

    def _has_processes(self) -> bool:
        return "populated 1" in (self.path / "cgroup.events").read_text().splitlines()


def enter(group: Path, program: Sequence[str]) -> list[str]:
    """Build the command line that moves itself into a group and becomes a program."""
    return ["/bin/sh", "-c", ENTER, str(group), *program]


def end_old_groups(jobs_dir: Path) -> int:
    """End what an agent that was killed has left running of the jobs in a folder.

    Returns:
        The number of killed processes.
    """
    parent = find_parent()
    if parent is None:
        return 0
    return sum(ControlGroup(path).end() for path in parent.glob(f"{_prefix(jobs_dir)}*"))


@cache
def find_parent() -> Path | None:
    """Return the worker's own control group; None if it can make no groups. Tried once."""
    own = _find_own()
    if own is None:
        return None
    probe = ControlGroup(own / f"redkiln-probe-{os.getpid()}")
    try:
        probe.make()
    except OSError:
        return None
    try:
        done = subprocess.run(enter(probe.path, ["true"]), capture_output=True, check=False)
        return own if done.returncode == 0 and (probe.path / "cgroup.kill").exists() else None
    finally:
        with suppress(OSError):
            probe.path.rmdir()


def _find_own(proc_dir: Path = PROC_DIR / "self") -> Path | None:
    """Return the folder of this process's group of cgroup v2; None if none is mounted."""
    try:
        lines = (proc_dir / "cgroup").read_text().splitlines()
        mounts = (proc_dir / "mountinfo").read_text().splitlines()
    except OSError:
        return None
    group = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), None)
    for line in mounts:
        place, _, kind = line.partition(" - ")
        if group is not None and kind.startswith("cgroup2 "):
            root, mount_point = place.split()[3:5]
            if Path(group).is_relative_to(root):
                return Path(mount_point) / Path(group).relative_to(root)
    return None


def _prefix(jobs_dir: Path) -> str:
    """Begin the names of one worker's groups; several workers may share a parent."""
    return f"redkiln-{hashlib.sha256(str(jobs_dir).encode()).hexdigest()[:12]}-"
