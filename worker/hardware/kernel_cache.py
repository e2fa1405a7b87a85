"""Where compiled and tuned kernels are kept, so that later jobs need not compile them again.

MIOpen, Inductor, Triton and TunableOp keep kernels for one architecture with one release of ROCm
and torch, and MIOpen's databases are damaged by two writers. So there is a folder for each
architecture, releases and slot.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

FIRST_STEPS_RECORD = "first-steps.json"
"""Written by the first job that has trained with the kernels of a folder; a self-test, which also
leaves kernels there, does not write it."""
LONGEST_SEARCH_SECONDS = 3600.0
"""After this long a first step may really hang, so it no longer counts as life by itself."""

Files = dict[str, tuple[int, int]]
"""Size and time of change of files, by path."""


def build_cache_key(
    *, arch: str | None, torch_version: str | None, rocm_version: str | None, slot: int
) -> str:
    """Return the folder's path below the cache; its content is valid only for exactly this key."""
    versions = f"torch-{torch_version or 'none'}-rocm-{rocm_version or 'none'}"
    return "/".join(_plain(part) for part in (arch or "cpu", versions, f"slot-{slot}"))


def _plain(part: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+-]", "_", part)


def count_kernels(folder: Path) -> int:
    """Return the number of files of compiled and tuned kernels; 0 without a folder."""
    return sum(len(names) for _, _, names in os.walk(folder))


def has_kernels(folder: Path, *, besides: str = "") -> bool:
    """Return whether anything was compiled or tuned into a folder.

    Args:
        folder: Folder of one architecture, releases and slot.
        besides: Name of a file that is not a kernel.
    """
    return any(path.is_file() and path.name != besides for path in folder.rglob("*"))


def list_files(folders: Iterable[Path]) -> Files:
    """Return the files of kernels in folders, so that two lists show whether anything is compiled.

    A file that disappears meanwhile is left out.
    """
    found: Files = {}
    for folder in folders:
        for root, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(root, name)  # noqa: PTH118  # thousands of files are listed
                try:
                    state = os.stat(path)  # noqa: PTH116
                except OSError:
                    continue
                found[path] = (state.st_size, state.st_mtime_ns)
    return found
