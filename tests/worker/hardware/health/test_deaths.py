import pytest

from redkiln.failure import FailureCode
from worker.hardware.health.deaths import (
    CAUSES,
    KERNEL_CAUSES,
    about_gpus,
    find_line,
    recognise,
    recognise_kernel,
    to_failure,
)

TRACEBACK = """Traceback (most recent call last):
  File "/app/worker/trainer/loop.py", line 211, in step
    loss.backward()
{}
"""

LAST_WORDS = {
    "gpu_out_of_memory": [
        TRACEBACK.format(
            "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.50 GiB. GPU 0 has a "
            "total capacity of 15.98 GiB of which 612.00 MiB is free."
        ),
        (
            "terminate called after throwing an instance of 'c10::OutOfMemoryError'\n"
            "  what():  CUDA out of memory. Tried to allocate 20.00 MiB"
        ),
        "RuntimeError: HIP error: hipErrorOutOfMemory",
    ],
    "no_bf16": [
        "LLVM ERROR: Cannot select: intrinsic %llvm.amdgcn.fdot2.bf16.bf16\nAborted (core dumped)"
    ],
    "compiler_died": ["LLVM ERROR: Cannot select: t42: v2f16 = AMDGPUISD::FMED3 t1, t2, t3"],
    "arch_not_in_build": [
        TRACEBACK.format(
            "RuntimeError: HIP error: invalid device function\n"
            "HIP kernel errors might be asynchronously reported at some other API call"
        ),
        "RuntimeError: HIP error: device kernel image is invalid",
        (
            "rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: "
            "No such file or directory for GPU arch : gfx1032\nAborted"
        ),
        "hipErrorNoBinaryForGpu: Unable to find code object for all current devices!",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    ],
    "blas_refused": [
        TRACEBACK.format(
            "RuntimeError: CUDA error: HIPBLAS_STATUS_NOT_SUPPORTED when calling "
            "`HIPBLAS_STATUS_NOT_SUPPORTED`"
        )
    ],
    "runtime_compiler_failed": [
        "RuntimeError: HIPRTC_ERROR_COMPILATION: typedef redefinition with different types",
        "hiprtc_kernel.cpp:12:3: error: typedef redefinition with different types",
    ],
    "graph_failed": [
        "HIP error: hipErrorStreamCaptureInvalidated",
        "hipGraphLaunch failed with error 719",
    ],
    "wrong_build": ["AssertionError: Torch not compiled with CUDA enabled"],
    "kfd_closed": [
        "Unable to open /dev/kfd read-write: Permission denied\nuser is not in the group"
    ],
    "runtime_refused": [
        (
            "hsa api call failure at: /src/rocminfo.cc:1219\n"
            "hsa_init failed: HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate"
        )
    ],
    "wsl_library": [
        "OSError: librocdxg.so.1: cannot open shared object file: No such file or directory"
    ],
    "gpu_not_visible": [
        TRACEBACK.format("RuntimeError: No HIP GPUs are available"),
        "Unable to open /dev/kfd read-write: No such file or directory",
        "RuntimeError: HIP error: no ROCm-capable device is detected",
    ],
    "memory_fault": [
        (
            "Memory access fault by GPU node-1 (Agent handle: 0x55d1c0) on address 0x7f42c8a00000. "
            "Reason: Page not present or supervisor privilege."
        ),
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    ],
    "gpu_hang": [
        "HW Exception by GPU node-1 (Agent handle: 0x5614) reason :GPU Hang",
        (
            ":0:rocdevice.cpp:3020: Callback: Queue 0x7f aborting with error : "
            "HSA_STATUS_ERROR_EXCEPTION: a hardware exception. code: 0x1016"
        ),
        "RuntimeError: HIP error: unspecified launch failure",
    ],
    "kernel_database_malformed": [
        (
            "MIOpen Error: sqlite_db.cpp:233: Internal error while accessing SQLite "
            "database: database disk image is malformed"
        )
    ],
    "kernel_database_locked": [
        "MIOpen(HIP): Error [GetKernel] sqlite_db.cpp: Internal error: database is locked"
    ],
    "shared_memory_full": [
        (
            "RuntimeError: DataLoader worker (pid 311) is killed by signal: Bus error. It is "
            "possible that dataloader's workers are out of shared memory."
        ),
        "RuntimeError: unable to write to file </torch_88_1742_0>: No space left on device (28)",
        "OSError: [Errno 28] No space left on device: '/dev/shm/pym-88'",
    ],
    "collective_hang": [
        (
            "[rank1]:[E501] [PG ID 0 Rank 1] Watchdog caught collective operation timeout: "
            "WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=600000)"
        )
    ],
    "disk_full": ["OSError: [Errno 28] No space left on device: 'checkpoints/step-12'"],
    "host_out_of_memory": ["RuntimeError: std::bad_alloc", "MemoryError"],
    "illegal_instruction": [
        "Queue 0x7f aborting with error : HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION: The agent code: 2a",
        TRACEBACK.format("RuntimeError: HIP error: an illegal instruction was encountered"),
    ],
    "convolution_failed": [
        TRACEBACK.format("RuntimeError: miopenStatusUnknownError"),
        TRACEBACK.format("RuntimeError: miopenStatusInternalError"),
        "MIOpen Error: hipoc_kernel.cpp: Invalid elapsed time",
    ],
    "system_library_missing": [
        "ImportError: libatomic.so.1: cannot open shared object file: No such file or directory"
    ],
    "broken_installation": ["ModuleNotFoundError: No module named 'safetensors'"],
}

KERNEL = {
    "gpu_hang": [
        "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=7120, emitted seq=7122",
        "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, but soft recovered",
        "amdgpu 0000:c4:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE",
        "amdgpu 0000:03:00.0: amdgpu: GPU reset begin!",
        "amdgpu 0000:03:00.0: amdgpu: GPU reset(2) succeeded!",
        "[drm] VRAM is lost due to GPU reset!",
    ],
    "memory_fault": [
        "amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32770)",
        "amdgpu 0000:03:00.0: amdgpu: GCVM_L2_PROTECTION_FAULT_STATUS:0x00801031",
    ],
}

HARMLESS = [
    (
        "MIOpen(HIP): Warning [SQLiteBase] Missing system database file: gfx1030_20.kdb "
        "Performance may degrade."
    ),
    (
        "MIOpen(HIP): Warning [IsEnoughWorkspace] [GetSolutionsFallback WTI] Solver <GemmFwdRest>, "
        "workspace required: 9437184, provided ptr: 0 size: 0"
    ),
    "UserWarning: Attempting to use hipBLASLt on an unsupported architecture! Overriding",
    "Pcie atomics not enabled, hostcall not supported",
    "/opt/amdgpu/share/libdrm/amdgpu.ids: No such file or directory",
    "batches in /dev/shm are fine",
]

NOT_RETRYABLE = {
    "blas_refused",
    "graph_failed",
    "runtime_compiler_failed",
    "gpu_out_of_memory", "no_bf16", "compiler_died", "arch_not_in_build", "wrong_build",
    "kfd_closed", "runtime_refused", "wsl_library", "kernel_database_malformed",
    "shared_memory_full", "broken_installation", "illegal_instruction", "convolution_failed",
    "system_library_missing",
}  # fmt: skip
"""What the same worker would meet again."""


def test_every_cause_is_shown_by_what_a_process_writes():
    assert set(LAST_WORDS) == {cause.name for cause in CAUSES}
    assert set(KERNEL) == {cause.name for cause in KERNEL_CAUSES}


@pytest.mark.parametrize(
    ("name", "words"), [(name, words) for name, texts in LAST_WORDS.items() for words in texts]
)
def test_the_last_output_is_recognised(name, words):
    cause = recognise("epoch 3: loss 0.41\n" + "\n".join(HARMLESS) + "\n" + words)
    assert cause is not None
    assert cause.name == name


@pytest.mark.parametrize(
    ("name", "line"), [(name, line) for name, lines in KERNEL.items() for line in lines]
)
def test_the_kernels_lines_are_recognised(name, line):
    found = recognise_kernel(["amdgpu: SMU is initialized", line])
    assert found is not None
    assert (found[0].name, found[1]) == (name, [line])


@pytest.mark.parametrize("line", HARMLESS)
def test_a_harmless_line_names_no_cause(line):
    assert recognise(line) is None


def test_a_hang_takes_precedence_over_its_page_fault():
    found = recognise_kernel([*KERNEL["memory_fault"], *KERNEL["gpu_hang"]])
    assert found[0].name == "gpu_hang"


def test_lines_about_another_gpu_are_dropped():
    lines = ["amdgpu 0000:03:00.0: ours", "amdgpu 0000:43:00.0: theirs", "[drm] nobody's"]
    assert about_gpus(lines, pci_addresses=["0000:03:00.0"]) == [lines[0], lines[2]]
    assert about_gpus(lines, pci_addresses=[]) == lines


@pytest.mark.parametrize("cause", [*CAUSES, *KERNEL_CAUSES], ids=lambda cause: cause.name)
def test_a_failure_has_a_fix_and_says_whether_to_retry(cause):
    failure = to_failure(cause, exit_status=1)
    assert failure.message == f"{cause.happened} {cause.fix}"
    assert failure.retryable == (cause.name not in NOT_RETRYABLE)
    assert failure.details["fix"] == cause.fix
    assert failure.details.get("doctor_row") == cause.row
    assert failure.details["exit_status"] == 1


def test_every_cause_on_a_gpu_has_a_row_of_the_doctor():
    unrelated = {"disk_full", "host_out_of_memory", "broken_installation"}
    assert {cause.name for cause in CAUSES if cause.row is None} == unrelated


def test_a_wrong_architecture_is_not_retried_but_a_fault_is():
    wrong = to_failure(recognise("HIP error: invalid device function"))
    fault = to_failure(recognise("Memory access fault by GPU node-1"))
    assert (wrong.code, wrong.retryable) == (FailureCode.NO_GPU, False)
    assert (fault.code, fault.retryable) == (FailureCode.GPU_FAULT, True)


def test_the_line_that_shows_the_cause_is_found():
    text = TRACEBACK.format("RuntimeError: No HIP GPUs are available")
    assert (
        find_line(recognise(text), text.splitlines()) == "RuntimeError: No HIP GPUs are available"
    )
