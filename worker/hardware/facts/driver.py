"""The version of the kernel's GPU driver, which results of a self-test depend on."""

import re
from pathlib import Path

AMDGPU_PATH = Path("/sys/module/amdgpu/version")
"""Present for AMD's own module alone; the kernel's has the kernel's release."""
NVIDIA_PATH = Path("/proc/driver/nvidia/version")
KERNEL_PATH = Path("/proc/sys/kernel/osrelease")


def read_driver_version(
    *, amdgpu: Path = AMDGPU_PATH, nvidia: Path = NVIDIA_PATH, kernel: Path = KERNEL_PATH
) -> str | None:
    """The driver's version, or the kernel's release where its own driver is used."""
    if version := _read(amdgpu):
        return f"amdgpu {version}"
    if found := re.search(r"Kernel Module.*?(\d+\.[\d.]+)", _read(nvidia)):
        return f"nvidia {found[1]}"
    release = _read(kernel)
    return f"linux {release}" if release else None


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
