"""Firmware with which a GPU hangs."""

from pathlib import Path

from worker.hardware.facts.sysfs import read_hexadecimal

BROKEN_MES = {"gfx1151": 0x83}
"""Versions of the scheduler's firmware (MES) that hang. Source: ROCm/ROCm#5724, #5590 (one thread
with ROCm/legacy-rocm-build#5724, read 2026-11-24)."""
MES_FILE = "fw_version/mes_fw_version"
"""Readable by everyone. Source: Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_ucode.c (mode 0444)."""


def read_mes(device_dir: Path) -> int | None:
    """Return the version of a card's scheduler firmware; None if the driver does not report it.

    Args:
        device_dir: The card's folder, `/sys/class/drm/card0/device`.
    """
    return read_hexadecimal(str(device_dir / MES_FILE))


def is_broken_mes(gfx: str | None, version: int | None) -> bool:
    """Return whether a target hangs with a version, of which the last byte counts."""
    broken = BROKEN_MES.get(gfx or "")
    return broken is not None and version is not None and version & 0xFF == broken


def describe_broken_firmware(gfx: str | None, version: int | None) -> str | None:
    """Describe why a firmware hangs; None if it does not, or if this is unknown."""
    if not is_broken_mes(gfx, version):
        return None
    return (
        f"{gfx} has the firmware MES 0x{version:x} (linux-firmware 20251125), with which it hangs "
        "or faults. Install a newer linux-firmware and restart the machine; until then, boot with "
        "amdgpu.cwsr_enable=0"
    )
