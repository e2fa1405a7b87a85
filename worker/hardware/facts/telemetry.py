"""One reading of a card's sensors from the files of the amdgpu driver.

A sensor whose file is missing or implausible is None. The set of files differs between cards and
kernels; on hardware each read goes through the firmware.

Source: docs.kernel.org gpu/amdgpu/thermal; torvalds/linux drivers/gpu/drm/amd/pm/amdgpu_pm.c.
"""

import re
import time
from datetime import UTC, datetime
from pathlib import Path

from redkiln.views.hardware import GpuTelemetry
from worker.hardware.facts.sysfs import Read, list_numbers, read_file, read_integer, read_text

TEMPERATURES = {"edge": "edge_celsius", "junction": "junction_celsius", "mem": "memory_celsius"}
"""Labels in hwmon, with the field that each fills."""

MAX_COUNT = 2**63
"""The firmware uses all ones for a missing value."""

_ACTIVE_LEVEL = re.compile(r"\s*\w+:\s*([0-9]{1,6})\s*[Mm]hz\s*\*\s*")
_DISCRETE_LEVELS = ("temp1", "temp2", "temp3")


def read_telemetry(card_device_dir: Path, *, read: Read = read_file) -> GpuTelemetry:
    """Read the sensors of a card.

    Args:
        card_device_dir: `/sys/class/drm/card<n>/device`.
        read: Function that reads a file.
    """
    started = time.perf_counter()
    device = str(card_device_dir)
    hwmon = find_hwmon(device, read=read)
    values: dict[str, float | int | None] = {
        "busy_ratio": _read_ratio(f"{device}/gpu_busy_percent", read),
        "memory_busy_ratio": _read_ratio(f"{device}/mem_busy_percent", read),
        "vram_total_bytes": _read_count(f"{device}/mem_info_vram_total", read),
        "vram_used_bytes": _read_count(f"{device}/mem_info_vram_used", read),
        "gtt_total_bytes": _read_count(f"{device}/mem_info_gtt_total", read),
        "gtt_used_bytes": _read_count(f"{device}/mem_info_gtt_used", read),
        "core_clock_hz": _read_clock(hwmon, "freq1", f"{device}/pp_dpm_sclk", read),
        "memory_clock_hz": _read_clock(hwmon, "freq2", f"{device}/pp_dpm_mclk", read),
    }
    if hwmon is not None:
        values |= _read_temperatures(hwmon, read) | _read_power(hwmon, read)
    spent = time.perf_counter() - started
    return GpuTelemetry.model_validate({**values, "at": datetime.now(UTC), "read_seconds": spent})


def find_hwmon(device: str, *, read: Read = read_file) -> str | None:
    """Find the folder of the card's sensors; its number differs from boot to boot."""
    folders = [f"{device}/hwmon/hwmon{n}" for n in list_numbers(f"{device}/hwmon", prefix="hwmon")]
    named = (folder for folder in folders if read_text(f"{folder}/name", read=read) == "amdgpu")
    return next(named, folders[0] if folders else None)


def parse_active_level(text: str) -> int | None:
    """Return the clock in Hz of the line marked `*` in `pp_dpm_sclk`; None unless there is one.

    The index may be a letter (`S:`, deep sleep), and the clock is 0 while the core is off.
    """
    active = [match for line in text.splitlines() if (match := _ACTIVE_LEVEL.fullmatch(line))]
    return int(active[0][1]) * 1_000_000 if len(active) == 1 else None


def _read_count(path: str, read: Read) -> int | None:
    value = read_integer(path, read=read)
    return value if value is not None and 0 <= value < MAX_COUNT else None


def _read_ratio(path: str, read: Read) -> float | None:
    percent = read_integer(path, read=read)
    return percent / 100 if percent is not None and 0 <= percent <= 100 else None


def _read_clock(hwmon: str | None, sensor: str, levels: str, read: Read) -> int | None:
    hertz = _read_count(f"{hwmon}/{sensor}_input", read) if hwmon else None
    if hertz is not None:
        return hertz
    text = read_text(levels, read=read)
    return parse_active_level(text) if text else None


def _read_temperatures(hwmon: str, read: Read) -> dict[str, float | int | None]:
    found: dict[str, float | int | None] = {}
    for sensor in _DISCRETE_LEVELS:
        name = TEMPERATURES.get(read_text(f"{hwmon}/{sensor}_label", read=read) or "")
        if name is not None:
            found[name] = _read_celsius(f"{hwmon}/{sensor}_input", read)
    return found


def _read_celsius(path: str, read: Read) -> float | None:
    """Read a temperature; the driver reports exactly 0 for a sensor that the card does not have."""
    thousandths = read_integer(path, read=read)
    is_plausible = thousandths and -273_150 < thousandths < 1_000_000
    return thousandths / 1000 if thousandths and is_plausible else None


def _read_power(hwmon: str, read: Read) -> dict[str, float | int | None]:
    average = _read_micro(f"{hwmon}/power1_average", read)
    return {
        "power_watts": average
        if average is not None
        else _read_micro(f"{hwmon}/power1_input", read),
        "power_cap_watts": _read_micro(f"{hwmon}/power1_cap", read),
        "fan_rpm": _read_count(f"{hwmon}/fan1_input", read),
    }


def _read_micro(path: str, read: Read) -> float | None:
    value = _read_count(path, read)
    return None if value is None else value / 1_000_000
