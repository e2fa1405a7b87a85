"""What a script may touch: its own folders, what it runs on, and its data."""

import json
import os
import resource
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from redkiln.tasks.script import Limits
from worker.script import confine
from worker.script.places import Places
from worker.script.processes import find_descendants

SYSTEM_DIRS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/etc", "/proc", "/sys",
    "/run/systemd/resolve",
)  # fmt: skip
"""What programs and libraries are made of; no data of anybody."""
DEVICE_DIRS = ("/dev",)
CACHE_VARIABLES = (
    "MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR", "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR", "PYTORCH_TUNABLEOP_FILENAME", "PYTORCH_KERNEL_CACHE_PATH",
)  # fmt: skip
"""Name folders, or a file in one, where the hardware's patches keep compiled kernels."""
HUB_DIRS = ("HF_HOME", "HF_HUB_CACHE", "TORCH_HOME")
SPARE_PROCESSES = 64


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
    is_required: bool = False

    def command(self, program: Sequence[str], environ: Mapping[str, str]) -> list[str]:
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
                *_cache_dirs(environ),
                *map(str, self.writable),
            ],
            max_processes=_count_own_processes() + self.limits.processes + SPARE_PROCESSES,
            max_file_bytes=self.limits.disk_bytes,
            is_required=self.is_required,
        )
        own = [sys.executable, "-I", "-S", str(Path(confine.__file__))]
        return [*own, json.dumps(asdict(order)), *program]


def has_landlock() -> bool:
    """Whether this kernel can keep a program from files."""
    return bool(confine.Landlock().version)


def _python_dirs() -> list[str]:
    """The worker's Python and its packages, and the code of Redkiln itself."""
    source = Path(__file__).resolve().parents[2]
    kinds = ("stdlib", "platstdlib", "purelib", "platlib", "include", "scripts")
    found = {Path(sysconfig.get_path(kind)) for kind in kinds}
    found |= {Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent}
    return sorted(map(str, found | {source / "redkiln", source / "worker"}))


def _cache_dirs(environ: Mapping[str, str]) -> list[str]:
    named = [environ[name] for name in CACHE_VARIABLES if environ.get(name)]
    folders = [path if Path(path).is_dir() else str(Path(path).parent) for path in named]
    return folders + [environ[name] for name in HUB_DIRS if environ.get(name)]


def _count_own_processes() -> int:
    """Threads of this user's, which the kernel's bound counts, too."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft == 0:
        return 0
    return find_descendants(1).num_threads
