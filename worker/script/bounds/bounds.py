"""What a script may access: its own folders, its devices and libraries, and its data."""

import json
import os
import resource
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from redkiln.failure import FailureCode
from redkiln.tasks.script import Limits
from worker.jobdir import ScriptConfinement, ScriptIsolation
from worker.process.failed import TrainingFailed
from worker.script.bounds import confine
from worker.script.bounds.calls import build_filter
from worker.script.bounds.control_group import enter
from worker.script.bounds.processes import find_descendants
from worker.script.bounds.sandbox import (
    TEMPORARY_DIR,
    build_sandbox,
    find_obstacle,
    measure_shared_memory,
)
from worker.script.program.paths import ScriptPaths

SYSTEM_FILES = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/etc",
    os.path.realpath("/etc/resolv.conf"),
)  # fmt: skip
"""Programs, libraries and system settings; no user data and no sockets."""
KERNEL_DIRS = ("/proc", "/sys")
SYSTEM_DIRS = (*SYSTEM_FILES, *KERNEL_DIRS)
DEVICE_DIRS = ("/dev",)
SPARE_PROCESSES = 64
LEAST_VERSIONS: Mapping[ScriptConfinement, int] = {
    "any": 0,
    "files": 1,
    "signals": confine.SCOPES_SINCE,
}
"""Required versions of Landlock."""


@dataclass(frozen=True)
class Bounds:
    """How a program is started and what it may access.

    Attributes:
        readable: Paths that it may read in addition to those that every program may read.
        writable: Paths that it may write in addition to the script's own folders.
        descriptors: Open folders that it may also read, with their paths; the caller passes
            them on.
        has_sandbox: Whether it runs in separate namespaces.
        may_link: Whether it may create symbolic links.
        control_group: Control group that it enters; None to stay in this process's.
    """

    paths: ScriptPaths
    limits: Limits
    readable: Sequence[Path] = ()
    writable: Sequence[Path] = ()
    descriptors: Mapping[int, Path] = field(default_factory=dict)
    has_sandbox: bool = False
    may_link: bool = True
    control_group: Path | None = None

    def command(self, program: Sequence[str], *, report: int | None = None) -> list[str]:
        """Build the program's command line, prefixed with the command that confines it.

        Args:
            program: The program's own command line.
            report: Descriptor that the first process of its namespace writes to; see `confine`.
        """
        common = [
            *SYSTEM_FILES,
            *_python_dirs(),
            str(self.paths.own_lib_dir),
            *map(str, self.readable),
        ]
        own = [str(self.paths.root), *map(str, self.writable)]
        by_number = [f"/proc/self/fd/{number}" for number in self.descriptors]
        private = [TEMPORARY_DIR] if self.has_sandbox else []
        held = map(str, self.descriptors.values()) if self.has_sandbox else by_number
        order = confine.Confinement(
            parent=os.getpid(),
            readable=[*common, *KERNEL_DIRS, *held],
            writable=[*DEVICE_DIRS, *private, *own],
            max_processes=_count_own_processes() + self.limits.processes + SPARE_PROCESSES,
            max_file_bytes=self.limits.disk_bytes,
            calls=build_filter(has_sandbox=self.has_sandbox),
            is_first=self.has_sandbox,
            report=report,
            may_link=self.may_link,
        )
        words = [sys.executable, "-I", "-S", str(Path(confine.__file__)), json.dumps(asdict(order))]
        sandbox: Sequence[str] = ()
        if self.has_sandbox:
            sandbox = self._build_sandbox(common, own)
        confined = [*sandbox, *words, *program]
        return confined if self.control_group is None else enter(self.control_group, confined)

    def _build_sandbox(self, readable: Sequence[str], writable: Sequence[str]) -> list[str]:
        return build_sandbox(
            readable=readable,
            writable=writable,
            descriptors=self.descriptors,
            own_dir=self.paths.root,
            shm_bytes=min(self.limits.disk_bytes, measure_shared_memory()),
        )


def has_landlock() -> bool:
    """Return whether this kernel can restrict a program's access to files."""
    return bool(confine.Landlock().version)


def find_gap(version: int | None = None) -> str | None:
    """Return what this kernel cannot prevent a script from doing; None if nothing.

    Args:
        version: Version of Landlock; None asks the kernel.
    """
    version = confine.Landlock().version if version is None else version
    if version == 0:
        return (
            "this kernel has no Landlock, so the script can access other files and processes of "
            "the worker's user"
        )
    if version < confine.SCOPES_SINCE:
        return (
            f"this kernel's Landlock (version {version}) cannot prevent the script from sending "
            f"signals to other processes of the worker's user; Linux 6.12 and later can"
        )
    return None


def refuse_gap(wanted: ScriptConfinement, *, version: int | None = None) -> None:
    """Refuse to run a script on a kernel that cannot confine it as the worker's owner requires.

    Args:
        wanted: Value of the setting REDKILN_SCRIPT_CONFINEMENT.
        version: Version of Landlock; None asks the kernel.

    Raises:
        TrainingFailed: The kernel cannot confine the script.
    """
    version = confine.Landlock().version if version is None else version
    if version >= LEAST_VERSIONS[wanted]:
        return
    message = (
        f"this worker runs no scripts with REDKILN_SCRIPT_CONFINEMENT={wanted}: {find_gap(version)}"
    )
    raise TrainingFailed(FailureCode.BAD_INPUT, message, landlock=version)


def decide_sandbox(wanted: ScriptIsolation) -> bool:
    """Return whether scripts run in separate namespaces.

    Args:
        wanted: Value of the setting REDKILN_SCRIPT_ISOLATION.

    Raises:
        TrainingFailed: They are required and impossible here.
    """
    if wanted == "off":
        return False
    obstacle = find_obstacle()
    if obstacle is not None and wanted == "required":
        message = f"this worker runs no scripts with REDKILN_SCRIPT_ISOLATION=required: {obstacle}"
        raise TrainingFailed(FailureCode.BAD_INPUT, message)
    return obstacle is None


def describe_openness(wanted: ScriptIsolation, *, version: int | None = None) -> str | None:
    """Return which UNIX sockets and shared memory of the machine a script reaches; None if none.

    Args:
        wanted: Value of the setting REDKILN_SCRIPT_ISOLATION.
        version: Version of Landlock; None asks the kernel.
    """
    if decide_sandbox(wanted):
        return _describe_abstract_sockets(version)
    why = "REDKILN_SCRIPT_ISOLATION is off" if wanted == "off" else find_obstacle()
    reach = (
        "connect to sockets of this machine that the worker's user may use, and use its /dev/shm"
    )
    if build_filter() is None:
        reach += ", and limit and slow down other processes of this user (libseccomp is missing)"
    return f"the script has no separate namespaces ({why}), so it can {reach}"


def _describe_abstract_sockets(version: int | None) -> str | None:
    version = confine.Landlock().version if version is None else version
    if version >= confine.SCOPES_SINCE:
        return None
    return (
        "the script shares the network with this machine, so it can connect to abstract sockets "
        f"of other processes: this kernel's Landlock (version {version}) cannot prevent it; Linux "
        "6.12 and later can"
    )


def _python_dirs() -> list[str]:
    """Return the worker's Python and its packages, and Redkiln's own code."""
    source = Path(__file__).resolve().parents[3]
    kinds = ("stdlib", "platstdlib", "purelib", "platlib", "include", "scripts")
    found = {Path(sysconfig.get_path(kind)) for kind in kinds}
    found |= {Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent}
    return sorted(map(str, found | {source / "redkiln", source / "worker"}))


def _count_own_processes() -> int:
    """Count this user's threads, because the kernel's limit includes them."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft == 0:
        return 0
    return find_descendants(1).num_threads
