"""Where compiled and tuned kernels are kept, so that the second job does not compile again.

MIOpen, Inductor, Triton and TunableOp each keep what they built for one arch with one release of
ROCm and torch; MIOpen's databases break under two writers. Hence a folder per arch, releases and
slot.
"""

import re
from pathlib import Path


def build_cache_key(
    *, arch: str | None, torch_version: str | None, hip_version: str | None, slot: int
) -> str:
    """The folder's name below the cache: nothing in it may be shared beyond this name."""
    versions = f"torch-{torch_version or 'none'}-rocm-{hip_version or 'none'}"
    return "/".join(_plain(part) for part in (arch or "cpu", versions, f"slot-{slot}"))


def _plain(part: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+-]", "_", part)


def has_kernels(folder: Path, *, besides: str = "") -> bool:
    """Whether anything was compiled or tuned into a folder.

    Args:
        folder: of one arch, releases and slot.
        besides: name of a file that is no kernel.
    """
    return any(path.is_file() and path.name != besides for path in folder.rglob("*"))
