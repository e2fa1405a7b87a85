"""Five made-up machines, as the doctor sees them; `tools.doctor_pictures` draws its reports."""

import errno
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from redkiln.views.hardware import GpuFacts, GpuLink, GpuReading, GpuTelemetry
from redkiln.views.self_test import SelfTestReport
from worker.hardware.doctor.evidence import DeviceNode, Evidence, KernelCache, SharedMemory, Torch

AT = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
GIB = 1024**3
ADDRESS = "0000:03:00.0"
APU_ADDRESS = "0000:c4:00.0"
LINK = GpuLink(to_node=0, kind="pcie", weight=20, has_atomics_32=True, has_atomics_64=True)

CARD = GpuFacts(
    node=1,
    gfx="gfx1100",
    name="Radeon RX 7900 XTX",
    cu_count=96,
    pci_address=ADDRESS,
    unique_id=0x5D0F6B,
    uuid="GPU-00000000005d0f6b",
    render_minor=128,
    card=0,
    is_apu=False,
    links=[LINK],
    telemetry=GpuTelemetry(
        busy_ratio=0.02, power_watts=14.0, vram_total_bytes=24 * GIB, vram_used_bytes=GIB
    ),
)
CARD_NOW = GpuReading(
    name="Radeon RX 7900 XTX",
    gfx="gfx1100",
    pci_address=ADDRESS,
    is_apu=False,
    busy_ratio=0.02,
    memory_used_bytes=GIB,
    memory_bytes=24 * GIB,
    celsius=41.0,
    power_watts=14.0,
    power_cap_watts=339.0,
    link_width=16,
    link_max_width=16,
    link_speed="16.0 GT/s PCIe",
    has_resizable_bar=True,
)
RAPHAEL = GpuFacts(
    node=2,
    gfx="gfx1036",
    name="Radeon Graphics (Raphael)",
    cu_count=2,
    pci_address=APU_ADDRESS,
    unique_id=0,
    render_minor=129,
    card=1,
    is_apu=True,
)
RAPHAEL_NOW = GpuReading(
    name="Radeon Graphics (Raphael)",
    gfx="gfx1036",
    pci_address=APU_ADDRESS,
    is_apu=True,
    busy_ratio=0.0,
    memory_used_bytes=GIB // 8,
    memory_bytes=15 * GIB,
    celsius=38.0,
    power_watts=22.0,
)
HALO = GpuFacts(
    node=1,
    gfx="gfx1151",
    name="Radeon 8060S",
    cu_count=40,
    pci_address=APU_ADDRESS,
    unique_id=0,
    render_minor=128,
    card=0,
    is_apu=True,
    telemetry=GpuTelemetry(
        busy_ratio=0.0, vram_total_bytes=64 * GIB, vram_used_bytes=GIB, gtt_total_bytes=62 * GIB
    ),
)
HALO_NOW = GpuReading(
    name="Radeon 8060S",
    gfx="gfx1151",
    pci_address=APU_ADDRESS,
    is_apu=True,
    busy_ratio=0.0,
    memory_used_bytes=2 * GIB,
    memory_bytes=62 * GIB,
    celsius=44.0,
    power_watts=11.0,
)
KFD = DeviceNode("/dev/kfd", uid=0, gid=992, mode=0o660, group="render")
RENDER = replace(KFD, path="/dev/dri/renderD128")
RENDER_2 = replace(KFD, path="/dev/dri/renderD129")

HEALTHY = Evidence(
    at=AT,
    hostname="station",
    uid=1000,
    groups=frozenset({1000, 992}),
    kernel_release="7.0.0-14-generic",
    command_line="quiet splash",
    has_driver=True,
    pci_gpus=(ADDRESS,),
    pci_targets=("gfx1100",),
    kfd=KFD,
    render_nodes=(RENDER,),
    gpus=(CARD,),
    gpu_readings=(CARD_NOW,),
    torch=Torch(
        "2.13.0+rocm10.0.0",
        hip="7.15.26333",
        rocm="10.0.0",
        arch_list=("gfx1036", "gfx1100", "gfx1151"),
        num_devices=1,
    ),
    python="3.12.4",
    firmware={ADDRESS: {"MES": "0x00000076", "MEC": "0x0000020f", "SMC": "0x004e7e00"}},
    kernel_log=("amdgpu 0000:03:00.0: amdgpu: SMU is initialized successfully!",),
    caches=(KernelCache("/home/me/.cache/redkiln/kernels", exists=True, is_writable=True,
                        file_system="ext4", num_files=41),),
    shared_memory=SharedMemory(32 * GIB, 32 * GIB),
    logs={"trainer.log": "epoch 1: loss 0.31\n"},
    self_tests=(SelfTestReport(at=AT, device="cuda:0", gfx="gfx1100", pci_address=ADDRESS,
                               status="passed"),),
    busy_gpus=frozenset(),
    system_names=("ubuntu", "debian"),
)  # fmt: skip

MACHINES: Mapping[str, Evidence] = {
    "healthy": HEALTHY,
    "no-driver": replace(
        HEALTHY,
        has_driver=False,
        kfd=None,
        render_nodes=(),
        gpus=(),
        gpu_readings=(),
        self_tests=(),
        torch=replace(HEALTHY.torch or Torch(), num_devices=0),
    ),
    "wrong-groups": replace(
        HEALTHY,
        groups=frozenset({1000}),
        kfd=replace(KFD, error=errno.EACCES),
        render_nodes=(replace(RENDER, error=errno.EACCES),),
        torch=replace(HEALTHY.torch or Torch(), num_devices=0),
    ),
    "apu-beside-a-card": replace(
        HEALTHY,
        pci_gpus=(ADDRESS, APU_ADDRESS),
        render_nodes=(RENDER, RENDER_2),
        gpus=(CARD, RAPHAEL),
        gpu_readings=(CARD_NOW, RAPHAEL_NOW),
        torch=replace(HEALTHY.torch or Torch(), num_devices=2),
    ),
    "strix-halo-old-kernel": replace(
        HEALTHY,
        kernel_release="6.17.8-300.fc43.x86_64",
        pci_gpus=(APU_ADDRESS,),
        pci_targets=("gfx1151",),
        gpus=(HALO,),
        gpu_readings=(HALO_NOW,),
        self_tests=(),
        firmware={APU_ADDRESS: {"MES": "0x00000083"}},
        system_names=("fedora",),
    ),
}
"""The machines of docs/doctor.md, by the name of their picture."""
