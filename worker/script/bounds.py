"""What a script may touch: its own folders, what it runs on, and its data."""

import json
import os
import resource
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from redkiln.failure import FailureCode
from redkiln.tasks.script import Limits
from worker.jobdir import ScriptConfinement
from worker.script import confine
from worker.script.places import Places
from worker.script.processes import find_descendants
from worker.trainer.failed import TrainingFailed

SYSTEM_DIRS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/etc", "/proc", "/sys",
    "/run/systemd/resolve",
)  # fmt: skip
"""What programs and libraries are made of; no data of anybody."""
DEVICE_DIRS = ("/dev",)
SPARE_PROCESSES = 64
LEAST_VERSIONS: Mapping[ScriptConfinement, int] = {
    "any": 0,
    "files": 1,
    "signals": confine.SCOPES_SINCE,
}
"""Of Landlock."""


@dataclass(frozen=True)
class Bounds:
    """How a program is started, and within what.

    Attributes:
        readable: beyond what every program may read.
        writable: beyond the script's own folders.
    """

    places: Places
    limits: Limits
    readable: Sequence[Path] = ()
    writable: Sequence[Path] = ()

    def command(self, program: Sequence[str]) -> list[str]:
        """The program's command line, with what confines it in front."""
        order = confine.Confinement(
            parent=os.getpid(),
            readable=[
                *SYSTEM_DIRS,
                *_python_dirs(),
                str(self.places.own_lib_dir),
                *map(str, self.readable),
            ],
            writable=[
                *DEVICE_DIRS,
                str(self.places.root),
                *map(str, self.writable),
            ],
            max_processes=_count_own_processes() + self.limits.processes + SPARE_PROCESSES,
            max_file_bytes=self.limits.disk_bytes,
        )
        own = [sys.executable, "-I", "-S", str(Path(confine.__file__))]
        return [*own, json.dumps(asdict(order)), *program]


def has_landlock() -> bool:
    """Whether this kernel can keep a program from files."""
    return bool(confine.Landlock().version)


def find_gap(version: int | None = None) -> str | None:
    """What this kernel cannot keep a script from; None where it can do all of it.

    Args:
        version: of Landlock; None asks the kernel.
    """
    version = confine.Landlock().version if version is None else version
    if version == 0:
        return (
            "this kernel has no Landlock: it cannot keep the script from other files and processes "
            "of the worker's user"
        )
    if version < confine.SCOPES_SINCE:
        return (
            f"this kernel's Landlock (version {version}) cannot keep the script from sending "
            f"signals to other processes of the worker's user; from Linux 6.12 on it can"
        )
    return None


def refuse_gap(wanted: ScriptConfinement, *, version: int | None = None) -> None:
    """Run no script where this kernel cannot keep it from what the worker's owner wants.

    Args:
        wanted: the setting REDKILN_SCRIPT_CONFINEMENT.
        version: of Landlock; None asks the kernel.

    Raises:
        TrainingFailed: the kernel cannot do it.
    """
    version = confine.Landlock().version if version is None else version
    if version >= LEAST_VERSIONS[wanted]:
        return
    message = (
        f"this worker runs no scripts (REDKILN_SCRIPT_CONFINEMENT={wanted}): {find_gap(version)}"
    )
    raise TrainingFailed(FailureCode.BAD_INPUT, message, landlock=version)


def _python_dirs() -> list[str]:
    """The worker's Python and its packages, and the code of Redkiln itself."""
    source = Path(__file__).resolve().parents[2]
    kinds = ("stdlib", "platstdlib", "purelib", "platlib", "include", "scripts")
    found = {Path(sysconfig.get_path(kind)) for kind in kinds}
    found |= {Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent}
    return sorted(map(str, found | {source / "redkiln", source / "worker"}))


def _count_own_processes() -> int:
    """Threads of this user's, which the kernel's bound counts, too."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft == 0:
        return 0
    return find_descendants(1).num_threads
