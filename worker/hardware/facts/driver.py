"""The version of the kernel's GPU driver, which affects the results of a self-test."""

import re
from pathlib import Path

AMDGPU_PATH = Path("/sys/module/amdgpu/version")
"""Exists only for AMD's own module; the kernel's module has the kernel's release."""
NVIDIA_PATH = Path("/proc/driver/nvidia/version")
KERNEL_PATH = Path("/proc/sys/kernel/osrelease")


def read_driver_version(
    *, amdgpu: Path = AMDGPU_PATH, nvidia: Path = NVIDIA_PATH, kernel: Path = KERNEL_PATH
) -> str | None:
    """Return the driver's version, or the kernel's release if its own driver is used."""
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
