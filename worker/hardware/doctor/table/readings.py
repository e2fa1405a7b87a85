"""One reading of each GPU: memory, temperature, power, link, errors, and who has it open."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from redkiln.views.hardware import GpuFacts, GpuProcess, GpuReading, GpuTelemetry
from worker.hardware.doctor.evidence import Process
from worker.hardware.doctor.table.pcie import PcieLink, read_link
from worker.hardware.facts.cards import find_device_dir
from worker.hardware.facts.sysfs import read_integer, read_text

UMC_BIT = 1
"""Bit of the memory controller in the mask of blocks whose errors are corrected.

Source: docs.kernel.org gpu/amdgpu/ras, sysfs interface `features`.
"""

_MASK = re.compile(r"feature mask:\s*(0x[0-9a-fA-F]+)")
_UNCORRECTED = re.compile(r"^ue:\s*(\d+)", re.MULTILINE)
NOTHING = GpuTelemetry()


def read_gpus(
    gpus: Sequence[GpuFacts],
    *,
    root: Path,
    topology_dir: Path,
    drm_dir: Path,
    processes: Sequence[Process],
) -> list[GpuReading]:
    """Read the state of each GPU.

    Args:
        gpus: GPUs with their sensors.
        root: Folder that contains `/sys`.
        topology_dir: The driver's topology.
        drm_dir: Folder of the cards.
        processes: Processes that have a GPU open.
    """
    return [
        _read_state(gpu, find_device_dir(gpu.card, drm_dir=drm_dir)).model_copy(
            update={"processes": _list_processes(gpu, root, topology_dir, processes)}
        )
        for gpu in gpus
    ]


def _read_state(gpu: GpuFacts, device: Path | None) -> GpuReading:
    seen = gpu.telemetry or NOTHING
    link = (read_link(device) if device else None) or PcieLink(0)
    return GpuReading(
        name=gpu.name or gpu.gfx or "a GPU",
        gfx=gpu.gfx,
        pci_address=gpu.pci_address,
        is_apu=gpu.is_apu,
        busy_ratio=seen.busy_ratio,
        memory_used_bytes=seen.gtt_used_bytes if gpu.is_apu else seen.vram_used_bytes,
        memory_bytes=seen.gtt_total_bytes if gpu.is_apu else seen.vram_total_bytes,
        celsius=next(
            (t for t in (seen.junction_celsius, seen.edge_celsius) if t is not None), None
        ),
        power_watts=seen.power_watts,
        power_cap_watts=seen.power_cap_watts,
        link_width=None if gpu.is_apu else link.width or None,
        link_max_width=None if gpu.is_apu else link.max_width,
        link_speed=None if gpu.is_apu else link.speed,
        has_resizable_bar=None if gpu.is_apu or not device else _has_resizable_bar(device),
        **(_read_errors(device) if device else {}),
    )


def _has_resizable_bar(device: Path) -> bool | None:
    total = read_integer(f"{device}/mem_info_vram_total")
    visible = read_integer(f"{device}/mem_info_vis_vram_total")
    return None if not total or visible is None else visible >= total


def _read_errors(device: Path) -> dict[str, bool | int]:
    mask = _MASK.search(read_text(f"{device}/ras/features") or "")
    if mask is None:
        return {}
    counted = _UNCORRECTED.search(read_text(f"{device}/ras/umc_err_count") or "")
    found: dict[str, bool | int] = {"has_ecc": bool(int(mask[1], 16) & UMC_BIT)}
    return found | ({"num_errors": int(counted[1])} if counted else {})


def _list_processes(
    gpu: GpuFacts, root: Path, topology_dir: Path, processes: Sequence[Process]
) -> list[GpuProcess]:
    gpu_id = None if gpu.node is None else read_integer(f"{topology_dir}/nodes/{gpu.node}/gpu_id")
    if not gpu_id:
        return []
    used = {
        process: read_integer(f"{root}/sys/class/kfd/kfd/proc/{process.pid}/vram_{gpu_id}")
        for process in processes
    }
    return [_describe(process, used) for process in processes if used[process] is not None]


def _describe(process: Process, used: Mapping[Process, int | None]) -> GpuProcess:
    return GpuProcess(pid=process.pid, name=process.name, memory_bytes=used[process])
