"""Prometheus gauges of a GPU, in base units, the same from a worker and from the service.

A sensor that a card does not have gives no sample, never a zero.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from redkiln.views.hardware import GpuState

GPU_GAUGES: dict[str, str] = {
    "redkiln_gpu_busy_ratio": "Fraction of time in which the GPU was busy.",
    "redkiln_gpu_memory_busy_ratio": "Fraction of time in which the GPU's memory was accessed.",
    "redkiln_gpu_memory_used_bytes": "Memory in use by anyone; kind vram or gtt (the host's).",
    "redkiln_gpu_memory_total_bytes": "Memory of the GPU.",
    "redkiln_gpu_power_watts": "Power consumption.",
    "redkiln_gpu_power_cap_watts": "Power limit.",
    "redkiln_gpu_temperature_celsius": "Temperature; sensor edge, junction or memory.",
    "redkiln_gpu_core_clock_hertz": "Clock rate of the compute units.",
    "redkiln_gpu_memory_clock_hertz": "Clock rate of the memory.",
    "redkiln_gpu_fan_rpm": "Fan speed in revolutions per minute.",
    "redkiln_gpu_excluded": "1 while the GPU is excluded from training; the label code says why.",
    "redkiln_gpu_leased": "1 while an attempt of this worker holds the GPU.",
}
"""Help text of each gauge."""

_SENSORS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("busy_ratio", "redkiln_gpu_busy_ratio", {}),
    ("memory_busy_ratio", "redkiln_gpu_memory_busy_ratio", {}),
    ("vram_used_bytes", "redkiln_gpu_memory_used_bytes", {"kind": "vram"}),
    ("gtt_used_bytes", "redkiln_gpu_memory_used_bytes", {"kind": "gtt"}),
    ("vram_total_bytes", "redkiln_gpu_memory_total_bytes", {"kind": "vram"}),
    ("gtt_total_bytes", "redkiln_gpu_memory_total_bytes", {"kind": "gtt"}),
    ("power_watts", "redkiln_gpu_power_watts", {}),
    ("power_cap_watts", "redkiln_gpu_power_cap_watts", {}),
    ("edge_celsius", "redkiln_gpu_temperature_celsius", {"sensor": "edge"}),
    ("junction_celsius", "redkiln_gpu_temperature_celsius", {"sensor": "junction"}),
    ("memory_celsius", "redkiln_gpu_temperature_celsius", {"sensor": "memory"}),
    ("core_clock_hz", "redkiln_gpu_core_clock_hertz", {}),
    ("memory_clock_hz", "redkiln_gpu_memory_clock_hertz", {}),
    ("fan_rpm", "redkiln_gpu_fan_rpm", {}),
)

LABELS: dict[str, tuple[str, ...]] = {
    "redkiln_gpu_memory_used_bytes": ("kind",),
    "redkiln_gpu_memory_total_bytes": ("kind",),
    "redkiln_gpu_temperature_celsius": ("sensor",),
    "redkiln_gpu_excluded": ("code",),
}
"""Labels of a gauge in addition to those that identify the GPU."""


@dataclass(frozen=True)
class Reading:
    """One sample of a gauge of one GPU."""

    gauge: str
    value: float
    labels: dict[str, str] = field(default_factory=dict)


def read_gauges(gpu: GpuState) -> Iterator[Reading]:
    """Yield all known readings of a GPU."""
    telemetry = gpu.facts.telemetry
    for sensor, gauge, labels in _SENSORS:
        value = getattr(telemetry, sensor, None)
        if value is not None:
            yield Reading(gauge, float(value), labels)
    code = gpu.excluded.code if gpu.excluded else ""
    yield Reading("redkiln_gpu_excluded", float(gpu.excluded is not None), {"code": code})
    yield Reading("redkiln_gpu_leased", float(gpu.attempt_id is not None))
