"""What every row of the table is red at: a fault, and what the doctor says of it."""

import errno
from dataclasses import replace

from redkiln.views.hardware import GpuFacts, GpuTelemetry
from tests.worker.hardware.doctor.made_machine import (
    ADDRESS,
    AT,
    CACHE,
    CARD,
    CPU_BUILD,
    GIB,
    INTEGRATED,
    KFD,
    RENDER,
    RENDER_2,
    ROCM,
    TO_CPU,
    TWO_CARDS,
    death,
    failed_result,
    self_test,
    tried,
    with_gfx,
    with_node,
    with_telemetry,
)
from worker.hardware.doctor.evidence import (
    KernelDatabase,
    Process,
    SharedMemory,
    Torch,
)
from worker.hardware.health.fault_book import SeenFault
from worker.hardware.override import ProbeResult

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
FAULT = SeenFault(at=AT, attempt_id="att_7", text="ImportError: no module named 'x'")
OVERRIDDEN = {"environment": {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}}
RIGHT = ProbeResult(verdict="passed", detail="matmul correct in a probe, error 1.2e-07")
WRONG = ProbeResult(verdict="failed", detail="it computes wrong numbers")

NO_LIBRARY = "cannot open shared object file: No such file or directory"
RED = [
    # row, what is other than on the healthy machine, severity, in the fix, in the evidence
    (1, with_gfx("gfx1201"), "blocks", "on the host: ./up --slim", "gfx1201"),
    (1, with_gfx("gfx90c"), "blocks", "./up --slim", "gfx90c"),
    (
        1,
        with_gfx("gfx90c") | {"is_container": False},
        "blocks",
        '"torch[device-gfx900]"',
        "gfx90c",
    ),
    (1, with_gfx("gfx9999"), "blocks", "another GPU, or on the CPU", "gfx9999"),
    (
        1,
        {"gpus": (CARD, CARD.model_copy(update={"gfx": "gfx1201", "node": 2}))},
        "blocks",
        "./up --full",
        "gfx1201",
    ),
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
        "./up --slim",
        "wheels for gfx1030",
    ),
    (1, with_gfx("gfx1032"), "note", "./up --slim", "gfx1032"),
    (1, with_gfx("gfx803"), "blocks", "another GPU or on the CPU", "gfx803"),
    (2, {"torch": CPU_BUILD}, "blocks", "./up --slim", "torch.version.hip is None"),
    (2, {"torch": CPU_BUILD} | with_gfx("gfx9999"), "blocks", "./up --cpu", "hip is None"),
    (2, {"torch": Torch("2.13.0", cuda="12.8", num_devices=0)}, "blocks", "./up", "CUDA 12.8"),
    (2, {"torch": Torch(error="No module named 'torch'")}, "blocks", "./up", "No module named"),
    (3, {"kfd": None}, "blocks", "--device /dev/kfd --device /dev/dri", "/dev/kfd does not exist"),
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
    (6, with_gfx("gfx1032") | OVERRIDDEN, "note", "unset HSA_OVERRIDE", "no probe has shown"),
    (
        6,
        with_gfx("gfx1032") | OVERRIDDEN | {"override_probes": {"gfx1032": WRONG}},
        "blocks",
        "unset HSA_OVERRIDE",
        "10.3.0",
    ),
    (
        6,
        {
            "gpus": (CARD, CARD.model_copy(update={"gfx": "gfx1032", "node": 2})),
            "override_probes": {"gfx1032": RIGHT},
        }
        | OVERRIDDEN,
        "blocks",
        "unset HSA_OVERRIDE",
        "10.3.0",
    ),
    (
        6,
        with_gfx("gfx1032") | {"environment": {"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}},
        "blocks",
        "unset HSA_OVERRIDE",
        "11.0.0",
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
        "failed: a hang",
    ),
    (
        21,
        TWO_CARDS | {"peer_verdicts": (tried(environment={"NCCL_P2P_DISABLE": "1"}),)},
        "slows",
        "iommu=pt",
        "only through main memory",
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
    (
        24,
        {"torch": replace(ROCM, error=f"ImportError: libatomic.so.1: {NO_LIBRARY}")},
        "blocks",
        "add libatomic1 to the packages in docker/worker.Dockerfile",
        "libatomic.so.1",
    ),
    (
        24,
        {
            "torch": replace(ROCM, error=f"ImportError: libquadmath.so.0: {NO_LIBRARY}"),
            "is_container": False,
        },
        "blocks",
        "sudo apt install libquadmath0 (Debian, Ubuntu), or sudo dnf install libquadmath (Fedora)",
        "libquadmath.so.0",
    ),
    (
        24,
        {"deaths": (death(24, f"ImportError: libMIOpen.so.1: {NO_LIBRARY}"),)},
        "blocks",
        "unset LD_LIBRARY_PATH",
        "libMIOpen.so.1",
    ),
    (
        25,
        with_gfx("gfx1151") | {"kernel_release": "6.14.0-1020-oem"},
        "slows",
        "docs/host.md",
        "gfx1151 needs 6.18.4",
    ),
    (
        25,
        with_gfx("gfx1201") | {"kernel_release": "6.8.0-1", "system_names": ("fedora",)},
        "slows",
        "sudo dnf upgrade",
        "kernel 6.8.0-1",
    ),
    (
        25,
        with_gfx("gfx1031") | {"driver_version": "6.12.12"},
        "slows",
        "docs/host.md",
        "gfx1031 needs 6.14.14",
    ),
    (26, {"deaths": (death(26, "miopenStatusUnknownError"),)}, "slows", "cudnn.enabled", "miopen"),
    (
        27,
        {"deaths": (death(27, "HIPBLAS_STATUS_NOT_SUPPORTED"),)},
        "slows",
        "ROCBLAS_USE_HIPBLASLT=0",
        "att_7: HIPBLAS_STATUS_NOT_SUPPORTED",
    ),
    (28, {"deaths": (death(28, "HIPRTC_ERROR_COMPILATION"),)}, "slows", "docker.pin", "HIPRTC"),
    (
        28,
        {"deaths": (death(28, "HIPRTC_ERROR_COMPILATION"),), "is_container": False},
        "slows",
        "./up",
        "HIPRTC",
    ),
    (29, {"deaths": (death(29, "hipErrorStreamCapture"),)}, "note", "reduce-overhead", "Capture"),
    (23, {"faults": {"TensorBoard": FAULT}}, "note", "make clean dev", "ImportError: no module"),
    (
        23,
        {"faults": {"TensorBoard": FAULT, "the worker": FAULT}},
        "slows",
        "make clean dev",
        "the worker in attempt att_7",
    ),
]
