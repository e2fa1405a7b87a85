"""What monitoring is told of a GPU, in base units: the same from a worker and from the service.

A sensor that a card does not have gives no sample, never a zero.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from redkiln.hardware import GpuState

GPU_GAUGES: dict[str, str] = {
    "redkiln_gpu_busy_ratio": "Share of time in which the GPU worked.",
    "redkiln_gpu_memory_busy_ratio": "Share of time in which its memory was accessed.",
    "redkiln_gpu_memory_used_bytes": "Memory in use, by everybody; kind vram or gtt (the host's).",
    "redkiln_gpu_memory_total_bytes": "Memory that there is.",
    "redkiln_gpu_power_watts": "Power that it draws.",
    "redkiln_gpu_power_cap_watts": "Power that it may draw.",
    "redkiln_gpu_temperature_celsius": "Temperature; sensor edge, junction or memory.",
    "redkiln_gpu_core_clock_hertz": "Clock of its compute units.",
    "redkiln_gpu_memory_clock_hertz": "Clock of its memory.",
    "redkiln_gpu_fan_rpm": "Revolutions of its fan in a minute.",
    "redkiln_gpu_excluded": "1 while it is not trained on; the label code says why.",
    "redkiln_gpu_leased": "1 while an attempt of this worker holds it.",
}
"""Help of each gauge."""

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
"""Labels of a gauge beside those that name the GPU."""


@dataclass(frozen=True)
class Reading:
    """One sample of a gauge of one GPU."""

    gauge: str
    value: float
    labels: dict[str, str] = field(default_factory=dict)


def read_gauges(gpu: GpuState) -> Iterator[Reading]:
    """All that is known of a GPU now."""
    telemetry = gpu.facts.telemetry
    for sensor, gauge, labels in _SENSORS:
        value = getattr(telemetry, sensor, None)
        if value is not None:
            yield Reading(gauge, float(value), labels)
    code = gpu.excluded.code if gpu.excluded else ""
    yield Reading("redkiln_gpu_excluded", float(gpu.excluded is not None), {"code": code})
    yield Reading("redkiln_gpu_leased", float(gpu.attempt_id is not None))
