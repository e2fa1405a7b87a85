"""Each row of the table turns red on a machine that has the fault, and green on others."""

import errno
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from redkiln.hardware import (
    GpuFacts,
    GpuLink,
    GpuTelemetry,
    SelfTestReport,
    SelfTestResult,
)
from worker.hardware.death_book import SeenDeath
from worker.hardware.doctor.evidence import (
    DeviceNode,
    Evidence,
    KernelCache,
    KernelDatabase,
    Process,
    SharedMemory,
    Torch,
)
from worker.hardware.doctor.examine import ROWS, examine
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
)

OTHER_CARD = CARD.model_copy(
    update={"pci_address": "0000:43:00.0", "render_minor": 129, "node": 2, "uuid": "GPU-2"}
)
TWO_CARDS = {"gpus": (CARD, OTHER_CARD), "render_nodes": (RENDER, RENDER_2), "has_iommu": True}
TWO_TESTED = (self_test(), self_test(pci_address="0000:43:00.0"))


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


FRAGMENTED = (
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 23.98 GiB of which 1.10 GiB is free. Of the allocated memory 14.20 GiB is "
    "allocated by PyTorch, and 7.90 GiB is reserved by PyTorch but unallocated."
)
RING = "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=712, emitted seq=714"
PAGE_FAULT = (
    "amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32770)"
)
RESET_FAILED = "amdgpu 0000:03:00.0: amdgpu: GPU reset(3) failed"

RED = [
    # row, what is other than on the healthy machine, severity, in the fix, in the evidence
    (1, with_gfx("gfx1201"), "blocks", "REDKILN_ARCH=gfx1201 docker compose up", "gfx1201"),
    (
        1,
        with_gfx("gfx1201") | {"is_container": False},
        "blocks",
        '"torch[device-gfx1201]"',
        "gfx1100",
    ),
    (
        1,
        {"packages": {"amd-torch-device-gfx1030": "2.13"}},
        "blocks",
        "gfx1100",
        "wheels for gfx1030",
    ),
    (1, with_gfx("gfx1032"), "note", "REDKILN_ARCH=gfx1032", "gfx1032"),
    (1, with_gfx("gfx803"), "blocks", "another GPU or on the CPU", "gfx803"),
    (2, {"torch": CPU_BUILD}, "blocks", "REDKILN_ARCH=gfx1100", "torch.version.hip is None"),
    (2, {"torch": Torch("2.13.0", cuda="12.8", num_devices=0)}, "blocks", "gfx1100", "CUDA 12.8"),
    (2, {"torch": Torch(error="No module named 'torch'")}, "blocks", "gfx1100", "No module named"),
    (3, {"kfd": None}, "blocks", "--device /dev/kfd --device /dev/dri", "/dev/kfd is absent"),
    (
        3,
        {"kfd": None, "is_docker_desktop": True},
        "blocks",
        "docker context use default",
        "Desktop",
    ),
    (
        3,
        {"kfd": None, "is_container": False, "has_driver": False, "gpus": (), "render_nodes": ()},
        "blocks",
        "sudo modprobe amdgpu",
        ADDRESS,
    ),
    (3, {"kfd": None, "is_container": False}, "blocks", "dmesg", "driver is loaded"),
    (3, with_node(error=errno.EPERM), "blocks", "--device /dev/kfd", "Operation not permitted"),
    (3, with_node(error=errno.ENODEV), "blocks", "dmesg", "No such device"),
    (4, with_node(error=errno.EACCES), "blocks", 'group_add: ["992"]', "groups 992, 10001"),
    (4, with_node(error=errno.EACCES, gid=65534), "blocks", "keep-groups", "65534"),
    (4, with_node(error=errno.EACCES, mode=0o600), "blocks", "chmod 660 /dev/kfd", "mode 600"),
    (
        4,
        {"kfd": replace(KFD, error=errno.EACCES, group="render"), "is_container": False},
        "blocks",
        "usermod --append --groups render",
        "render (992)",
    ),
    (
        4,
        {"render_nodes": (replace(RENDER, error=errno.EACCES, gid=44),)},
        "blocks",
        'group_add: ["44"]',
        "/dev/dri/renderD128",
    ),
    (5, {"render_nodes": ()}, "blocks", "--device /dev/dri/renderD128", "absent"),
    (
        5,
        {"render_nodes": (replace(RENDER, error=errno.EPERM),)},
        "blocks",
        "devices: [/dev/kfd, /dev/dri/renderD128]",
        "forbidden",
    ),
    (
        5,
        {"render_nodes": (), "gpus": (GpuFacts(node=1, is_accessible=False),)},
        "blocks",
        "/dev/dri",
        "",
    ),
    (
        6,
        {"environment": {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}},
        "blocks",
        "unset HSA_OVERRIDE_GFX_VERSION",
        "10.3.0",
    ),
    (6, {"torch": replace(ROCM, num_devices=0)}, "blocks", "amdgpu-dkms", "torch counts 0 devices"),
    (6, {"deaths": (death(6, "hsa_init failed"),)}, "blocks", "driver", "hsa_init failed"),
    (7, {"packages": {"amdsmi": "7.0.2"}}, "note", "pip uninstall --yes amdsmi", "7.0.2"),
    (
        7,
        {"packages": {"amdsmi": "7.0.2"}, "torch": replace(ROCM, num_devices=0)},
        "blocks",
        "pip uninstall --yes amdsmi",
        "counts 0",
    ),
    (
        8,
        {"gpus": (CARD, INTEGRATED), "render_nodes": (RENDER, RENDER_2)},
        "note",
        "/dev/dri/renderD128]",
        "gfx1036 at 0000:0d:00.0 (2 CU)",
    ),
    (
        8,
        {"gpus": (CARD, INTEGRATED), "render_nodes": (RENDER, RENDER_2), "is_container": False},
        "note",
        "ROCR_VISIBLE_DEVICES=GPU-00000000005d0f6b",
        "96 CU",
    ),
    (9, {"kernel_log": (PAGE_FAULT,)}, "slows", "newer ROCm", "page fault"),
    (9, {"deaths": (death(9, "Memory access fault by GPU node-1"),)}, "slows", "ROCm", "att_7"),
    (
        10,
        {"kernel_log": (RING,), "kernel_release": "6.14.0-1"},
        "slows",
        "from 6.18 on",
        "ring gfx",
    ),
    (10, {"kernel_log": (RING,)}, "slows", "amdgpu.cwsr_enable=0", "kernel 6.18.3"),
    (10, {"kernel_log": (RING, RESET_FAILED)}, "blocks", "reboot", "failed"),
    (
        10,
        with_gfx("gfx1151") | {"firmware": {ADDRESS: {"MES": "0x00000083"}}},
        "slows",
        "linux-firmware",
        "0x00000083",
    ),
    (11, with_telemetry(busy_ratio=1.0, power_watts=94.0), "slows", "fuser", "100% busy, 94 W"),
    (
        11,
        with_telemetry(busy_ratio=1.0) | {"gpu_processes": (Process(4211, "ollama"),)},
        "slows",
        "kill 4211",
        "ollama (4211)",
    ),
    (
        12,
        with_gfx("gfx1100", links=[TO_CPU.model_copy(update={"has_atomics_64": False})]),
        "slows",
        "slot",
        "no atomics",
    ),
    (
        12,
        {"kernel_log": ("kfd kfd: amdgpu: skipped device 1002:73bf, PCI rejects atomics 730<0",)},
        "blocks",
        "slot",
        "1002:73bf",
    ),
    (
        13,
        {"caches": (replace(CACHE, is_writable=False),)},
        "slows",
        "chown -R 10001 /cache",
        "/cache",
    ),
    (13, {"caches": (replace(CACHE, file_system="tmpfs"),)}, "slows", "volumes:", "tmpfs"),
    (13, {"caches": (replace(CACHE, num_files=0, databases=()),)}, "note", "nothing", "empty"),
    (
        14,
        {
            "caches": (
                replace(
                    CACHE,
                    databases=(KernelDatabase("/c/a.ukdb", "database disk image is malformed"),),
                ),
            )
        },
        "blocks",
        "rm /c/a.ukdb",
        "malformed",
    ),
    (14, {"caches": (replace(CACHE, file_system="nfs4"),)}, "slows", "KERNEL_CACHE_DIR", "nfs4"),
    (14, {"deaths": (death(14, "database is locked"),)}, "slows", "KERNEL_CACHE_DIR", "locked"),
    (
        15,
        {"logs": {"a.log": "MIOpen(HIP): Warning: Missing system database file: gfx1030_20.kdb"}},
        "note",
        "harmless",
        "gfx1030_20.kdb",
    ),
    (16, {"logs": {"a.log": FRAGMENTED}}, "slows", "PYTORCH_ALLOC_CONF", "7.90 GiB"),
    (
        16,
        with_telemetry(vram_used_bytes=20 * GIB) | {"gpu_processes": (Process(77, "blender"),)},
        "slows",
        "kill 77",
        "20.0 GiB of 24.0 GiB used (83%)",
    ),
    (
        16,
        with_gfx(
            "gfx1103",
            is_apu=True,
            telemetry=GpuTelemetry(vram_total_bytes=GIB // 2, gtt_total_bytes=15 * GIB),
        ),
        "note",
        "BIOS",
        "512 MiB",
    ),
    (16, {"deaths": (death(16, "HIP out of memory"),)}, "note", "batch_size", "att_7"),
    (17, {"shared_memory": SharedMemory(64 * 1024**2, 0)}, "slows", "shm_size: 8g", "64 MiB"),
    (17, {"deaths": (death(17, "Bus error"),)}, "slows", "shm_size", "Bus error"),
    (18, {"deaths": (death(None, status=-11, is_complete=True),)}, "note", "nothing", "status -11"),
    (
        19,
        {"self_tests": (self_test(status="failed", results=[failed_result()]),)},
        "blocks",
        "worker.hardware.selftest",
        "error 9.7e-01, allowed 4.0e-03, 93% zeros",
    ),
    (
        19,
        {"self_tests": (self_test(status="failed", results=[failed_result(library="hipblaslt")]),)},
        "slows",
        "TORCH_BLAS_PREFER_HIPBLASLT=0",
        "hipblaslt",
    ),
    (19, with_gfx("gfx1033"), "blocks", "another GPU", "unslothai/unsloth#8412"),
    (
        20,
        with_gfx("gfx1030") | {"deaths": (death(20, "LLVM ERROR: Cannot select: intrinsic"),)},
        "slows",
        "training: {precision: fp16}",
        "gfx1030",
    ),
    (21, TWO_CARDS, "slows", "iommu=pt", "2 GPUs over PCIe"),
    (
        21,
        TWO_CARDS | {"has_iommu": False, "peer_verdicts": (tried(problem="a hang"),)},
        "slows",
        "NCCL_P2P_DISABLE=1",
        "were tried: a hang",
    ),
    (
        21,
        TWO_CARDS | {"peer_verdicts": (tried(environment={"NCCL_P2P_DISABLE": "1"}),)},
        "slows",
        "iommu=pt",
        "through main memory alone",
    ),
    (21, {"deaths": (death(21, "NCCL error"),)}, "slows", "NCCL_P2P_DISABLE=1", "NCCL error"),
    (22, {"is_wsl": True, "kfd": None, "dxg": None}, "blocks", "compose.wsl.yaml", "/dev/dxg"),
    (
        22,
        {"is_wsl": True, "dxg": KFD, "wsl_libraries": ("/usr/lib/wsl/lib/libdxcore.so",)},
        "blocks",
        "/usr/lib/wsl/lib/librocdxg.so",
        "librocdxg.so",
    ),
    (
        22,
        {
            "is_wsl": True,
            "dxg": KFD,
            "torch": replace(ROCM, hip="7.2.1"),
            "wsl_libraries": ("/usr/lib/wsl/lib/libdxcore.so", "/opt/rocm/lib/librocdxg.so.1"),
        },
        "blocks",
        "HSA_ENABLE_DXG_DETECTION=1",
        "7.13",
    ),
]

GREEN = [
    (1, with_gfx("gfx1100") | {"packages": {"amd-torch-device-gfx1100": "2.13"}}),
    (2, {"torch": CPU_BUILD, "gpus": (), "pci_gpus": (), "kfd": None}),
    (3, {"is_wsl": True, "kfd": None, "dxg": KFD}),
    (4, {"render_nodes": (RENDER, replace(RENDER_2, error=errno.EACCES))}),
    (5, {"gpus": (CARD, OTHER_CARD)}),
    (7, {"packages": {"amdsmi": "7.0.2"}, "torch": CPU_BUILD}),
    (
        8,
        {
            "gpus": (CARD, INTEGRATED),
            "render_nodes": (RENDER, RENDER_2),
            "environment": {"ROCR_VISIBLE_DEVICES": "GPU-00000000005d0f6b"},
        },
    ),
    (8, {"gpus": (INTEGRATED,), "render_nodes": (RENDER_2,)}),
    (11, with_telemetry(busy_ratio=1.0) | {"busy_gpus": frozenset({ADDRESS})}),
    (16, with_telemetry(vram_used_bytes=23 * GIB) | {"busy_gpus": frozenset({ADDRESS})}),
    (9, {"deaths": (death(9, "Memory access fault", at=AT - timedelta(days=8)),)}),
    (18, {"deaths": (death(None, is_complete=True, at=AT - timedelta(days=8)),)}),
    (20, with_gfx("gfx1030")),
    (21, TWO_CARDS | {"command_line": "quiet iommu=pt"}),
    (21, TWO_CARDS | {"environment": {"NCCL_P2P_DISABLE": "1"}}),
    (21, TWO_CARDS | {"has_iommu": False}),
    (21, TWO_CARDS | {"peer_verdicts": (tried(problem="a hang"), tried())}),
    (21, TWO_CARDS | {"has_iommu": False, "peer_verdicts": (tried(gpus=("other",), problem="x"),)}),
    (
        22,
        {
            "is_wsl": True,
            "dxg": KFD,
            "torch": replace(ROCM, hip="7.13.0"),
            "wsl_libraries": ("/usr/lib/wsl/lib/libdxcore.so", "/opt/rocm/lib/librocdxg.so.1"),
        },
    ),
]

UNKNOWN = [
    (1, {"torch": None}),
    (1, {"torch": replace(ROCM, arch_list=())}),
    (2, {"torch": None}),
    (3, {"kfd": None, "gpus": (), "pci_gpus": (), "has_driver": False}),
    (4, {"kfd": None, "render_nodes": ()}),
    (5, {"gpus": ()}),
    (6, {"torch": None}),
    (6, {"torch": replace(ROCM, num_devices=0), "packages": {"amdsmi": "7.0.2"}}),
    (8, {"render_nodes": ()}),
    (9, {"kernel_log": None}),
    (10, {"kernel_log": None}),
    (11, {"busy_gpus": None}),
    (11, with_gfx("gfx1100", telemetry=None)),
    (12, with_gfx("gfx1100", links=[])),
    (13, {"caches": ()}),
    (14, {"caches": ()}),
    (15, {"logs": {}}),
    (16, with_gfx("gfx1100", telemetry=None)),
    (17, {"shared_memory": None}),
    (19, {"self_tests": ()}),
    (20, {"gpus": ()}),
    (21, TWO_CARDS | {"command_line": None}),
]


def check(row, **changes):
    (found,) = [item for item in ROWS if item.number == row]
    return found.examine(replace(HEALTHY, **changes))


def test_the_table_has_all_rows_and_each_is_shown_red_and_green():
    numbers = [row.number for row in ROWS]
    assert numbers == list(range(1, 23))
    assert {case[0] for case in RED} == set(numbers)
    assert len({row.id for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", range(1, 23))
def test_a_healthy_machine_is_green_in_every_row(row):
    found = check(row)
    assert (found.verdict, found.fix) == ("ok", ""), found
    assert found.evidence


@pytest.mark.parametrize(("row", "changes", "severity", "fix", "evidence"), RED)
def test_a_fault_is_red_and_says_what_to_type(row, changes, severity, fix, evidence):
    found = check(row, **changes)
    assert (found.verdict, found.severity) == ("bad", severity), found
    assert fix in found.fix
    assert evidence in found.evidence
    assert found.cause


@pytest.mark.parametrize(("row", "changes"), GREEN)
def test_what_only_looks_like_a_fault_is_green(row, changes):
    found = check(row, **changes)
    assert (found.verdict, found.fix) == ("ok", ""), found


@pytest.mark.parametrize(("row", "changes"), UNKNOWN)
def test_what_cannot_be_seen_is_unknown_and_not_guessed(row, changes):
    assert check(row, **changes).verdict == "unknown"


def test_what_blocks_comes_first_then_what_slows_then_what_is_only_to_be_known():
    broken = replace(
        HEALTHY,
        packages={"amdsmi": "7.0.2"},
        shared_memory=SharedMemory(64 * 1024**2, 0),
        kfd=replace(KFD, error=errno.EACCES),
        kernel_log=None,
    )
    report = examine(broken)
    kinds = [(c.verdict, c.severity if c.verdict == "bad" else "") for c in report.checks[1:]]
    order = [("bad", "blocks"), ("bad", "slows"), ("bad", "note"), ("unknown", ""), ("ok", "")]
    assert [order.index(kind) for kind in kinds] == sorted(order.index(kind) for kind in kinds)
    assert set(kinds) == set(order)
    assert report.checks[0].id == "gpus"
    assert report.is_blocked


def test_a_machine_without_an_amd_gpu_is_not_red_all_over():
    bare = Evidence(at=AT, torch=CPU_BUILD, shared_memory=SharedMemory(2 * GIB, 2 * GIB))
    report = examine(bare)
    assert [check.row for check in report.checks] == [0, 2, 17]
    assert {check.verdict for check in report.checks} == {"ok"}
    assert "jobs train on the CPU" in report.checks[0].evidence


def test_a_healthy_machine_needs_nothing():
    report = examine(HEALTHY)
    assert report.verdict == "ok"
    assert {check.verdict for check in report.checks} == {"ok"}
    assert report.versions["hip"] == "7.2.4"


def test_a_known_defect_is_told_of_the_card_that_has_it_and_of_no_other():
    other = CARD.model_copy(update={"gfx": "gfx1030", "pci_address": "0000:09:00.0"})
    told = check(19, self_tests=(), gpus=(CARD, other)).evidence
    assert f"gfx1100 at {ADDRESS}" in told
    assert "known of gfx1030: bf16" in told
    assert "gfx1100: " not in told


def test_cards_that_cannot_be_opened_are_not_said_to_tell_nothing():
    assert check(16, render_nodes=()).evidence == "no GPU is open here"


def test_numbers_that_are_not_finite_are_called_so():
    result = failed_result(max_rel_error=None, nan_count=12)
    found = check(19, self_tests=(self_test(status="failed", results=[result]),))
    assert "not finite" in found.evidence
    assert math.isfinite(result.tolerance)
