"""Where compiled and tuned kernels are kept, so that later jobs need not compile them again.

MIOpen, Inductor, Triton and TunableOp keep kernels for one architecture with one release of ROCm
and torch, and MIOpen's databases are damaged by two writers. So there is a folder for each
architecture, releases and slot.
"""

import os
import re
from pathlib import Path

LONGEST_SEARCH_SECONDS = 3600.0
"""After this long a first step may really hang, so it no longer counts as life by itself."""


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
