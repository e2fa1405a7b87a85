"""Where compiled and tuned kernels are kept, so that the second job does not compile again.

MIOpen, Inductor, Triton and TunableOp each keep what they built for one arch with one release of
ROCm and torch; MIOpen's databases break under two writers. Hence a folder per arch, releases and
slot.
"""

import re
from collections.abc import Mapping
from pathlib import Path


def build_cache_key(
    *, arch: str | None, torch_version: str | None, hip_version: str | None, slot: int
) -> str:
    """The folder's name below the cache: nothing in it may be shared beyond this name."""
    versions = f"torch-{torch_version or 'none'}-rocm-{hip_version or 'none'}"
    return "/".join(_plain(part) for part in (arch or "cpu", versions, f"slot-{slot}"))


def build_cache_environment(folder: Path, own: Mapping[str, str]) -> dict[str, str]:
    """The variables that send each library's cache into the folder.

    A place that the agent's own environment names is left as it is.

    Source: MIOpen's, Triton's and PyTorch's documentation of these variables; TunableOp replaces
    `%d` by the device's number.
    """
    places = {
        "MIOPEN_USER_DB_PATH": folder / "miopen",
        "MIOPEN_CUSTOM_CACHE_DIR": folder / "miopen",
        "TORCHINDUCTOR_CACHE_DIR": folder / "inductor",
        "TRITON_CACHE_DIR": folder / "triton",
        "PYTORCH_TUNABLEOP_FILENAME": folder / "tunableop%d.csv",
    }
    return {name: str(place) for name, place in places.items() if name not in own}


def _plain(part: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+-]", "_", part)
