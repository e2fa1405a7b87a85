"""A healthy machine as its doctor sees it, and ways in which another is not like it."""

from dataclasses import replace
from datetime import UTC, datetime

from redkiln.views.hardware import GpuFacts, GpuLink, GpuTelemetry
from redkiln.views.self_test import SelfTestReport, SelfTestResult
from worker.hardware.doctor.evidence import (
    DeviceNode,
    Evidence,
    KernelCache,
    KernelDatabase,
    SharedMemory,
    Torch,
)
from worker.hardware.health.death_book import SeenDeath
from worker.hardware.peers import PeerVerdict

AT = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
GIB = 1024**3
ADDRESS = "0000:03:00.0"

TO_CPU = GpuLink(to_node=0, kind="pcie", weight=20, has_atomics_32=True, has_atomics_64=True)
CARD = GpuFacts(
    node=1,
    gfx="gfx1100",
    name="Radeon RX 7900 XTX",
    cu_count=96,
    wave_size=32,
    pci_address=ADDRESS,
    unique_id=0x5D0F6B,
    uuid="GPU-00000000005d0f6b",
    render_minor=128,
    card=0,
    is_apu=False,
    links=[TO_CPU],
    telemetry=GpuTelemetry(
        busy_ratio=0.02, power_watts=14.0, vram_total_bytes=24 * GIB, vram_used_bytes=GIB
    ),
)
INTEGRATED = GpuFacts(
    node=2,
    gfx="gfx1036",
    cu_count=2,
    pci_address="0000:0d:00.0",
    unique_id=0,
    render_minor=129,
    is_apu=True,
)
KFD = DeviceNode("/dev/kfd", uid=0, gid=992, mode=0o660)
RENDER = DeviceNode("/dev/dri/renderD128", uid=0, gid=992, mode=0o660)
RENDER_2 = replace(RENDER, path="/dev/dri/renderD129")
ROCM = Torch(
    "2.13.0+rocm7.2", hip="7.2.4", arch_list=("gfx90a", "gfx1030", "gfx1100"), num_devices=1
)
CPU_BUILD = Torch("2.13.0+cpu", num_devices=0)
CACHE = KernelCache(
    "/cache/kernels",
    exists=True,
    is_writable=True,
    file_system="ext4",
    num_files=41,
    databases=(KernelDatabase("/cache/kernels/gfx1100_48.ukdb"),),
)


def self_test(**changes):
    told = {"device": "cuda:0", "gfx": "gfx1100", "pci_address": ADDRESS, "status": "passed"}
    return SelfTestReport(at=AT, **told | changes)


def failed_result(**changes):
    told = {
        "area": "gemm_tall_skinny",
        "precision": "fp16",
        "library": "rocblas",
        "shape": "8192x16x512",
        "reduction_length": 512,
        "max_rel_error": 0.97,
        "tolerance": 0.004,
        "zeros_ratio": 0.93,
        "verdict": "failed",
        "seconds": 0.1,
    }
    return SelfTestResult(**told | changes)


def death(row, line="", **changes):
    told = {"at": AT, "attempt_id": "att_7", "status": -6, "row": row, "line": line}
    return SeenDeath(**told | changes)


HEALTHY = Evidence(
    at=AT,
    hostname="station",
    environment={"PATH": "/usr/bin"},
    uid=10001,
    groups=frozenset({10001, 992}),
    is_container=True,
    kernel_release="6.18.3-generic",
    command_line="BOOT_IMAGE=/vmlinuz root=/dev/sda2 quiet",
    has_driver=True,
    pci_gpus=(ADDRESS,),
    kfd=KFD,
    render_nodes=(RENDER,),
    gpus=(CARD,),
    packages={"torch": "2.13.0+rocm7.2"},
    torch=ROCM,
    kernel_log=("amdgpu 0000:03:00.0: amdgpu: SMU is initialized successfully!",),
    caches=(CACHE,),
    shared_memory=SharedMemory(8 * GIB, 8 * GIB),
    logs={"jobs/att_1/trainer.log": "epoch 1: loss 0.31\n"},
    self_tests=(self_test(),),
    busy_gpus=frozenset(),
    python="3.12.4",
)

OTHER_CARD = CARD.model_copy(
    update={"pci_address": "0000:43:00.0", "render_minor": 129, "node": 2, "uuid": "GPU-2"}
)
TWO_CARDS = {"gpus": (CARD, OTHER_CARD), "render_nodes": (RENDER, RENDER_2), "has_iommu": True}


def tried(*, gpus=(ADDRESS, "0000:43:00.0"), problem="", environment=None):
    return PeerVerdict(
        at=AT,
        gpus=gpus,
        torch=ROCM.version,
        driver=None,
        has_passed=bool(environment) or not problem,
        environment=environment or {},
        problem=problem,
    )


def with_gfx(gfx, **changes):
    return {"gpus": (CARD.model_copy(update={"gfx": gfx, **changes}),)}


def with_telemetry(**changes):
    return {
        "gpus": (CARD.model_copy(update={"telemetry": CARD.telemetry.model_copy(update=changes)}),)
    }


def with_node(**changes):
    return {"kfd": replace(KFD, **changes)}
