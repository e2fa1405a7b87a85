"""Explains the last output of a process that used a GPU, with patterns as data.

The agent explains a trainer's death with them, the trainer its own exceptions, and the doctor what
it finds in logs and in the kernel's log. Each cause has its row in the table of known failures
(docs/doctor.md), a fix, and whether the same job may be retried.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from redkiln.failure import FailureCode, JobFailure


@dataclass(frozen=True)
class Cause:
    """A known reason why a process that used a GPU failed.

    Attributes:
        pattern: Pattern in the output of the process, or in the kernel's log.
        row: Number in docs/doctor.md; None if the cause is unrelated to GPUs.
        is_retryable: Whether another attempt may succeed.
        happened: Description of the event, in one sentence.
        fix: Remedy, as a sentence.
    """

    name: str
    pattern: re.Pattern[str]
    row: int | None
    code: FailureCode
    is_retryable: bool
    happened: str
    fix: str


def recognise(text: str) -> Cause | None:
    """Return the cause that a process's last output shows; None if it is unknown."""
    telling = drop_harmless(text)
    return next((cause for cause in CAUSES if cause.pattern.search(telling)), None)


def recognise_kernel(lines: Iterable[str]) -> tuple[Cause, list[str]] | None:
    """Return the most serious cause in lines of the kernel's log, with the lines that show it."""
    listed = list(lines)
    for cause in KERNEL_CAUSES:
        if found := [line for line in listed if cause.pattern.search(line)]:
            return cause, found
    return None


def find_line(cause: Cause, lines: Iterable[str]) -> str:
    """Return the line that shows a cause; empty if it takes several lines."""
    return next((line.strip()[:300] for line in lines if cause.pattern.search(line)), "")


def drop_harmless(text: str) -> str:
    """Remove the lines that look serious but are harmless."""
    return "\n".join(line for line in text.splitlines() if not HARMLESS.search(line))


def about_gpus(lines: Iterable[str], *, pci_addresses: Sequence[str]) -> list[str]:
    """Remove the kernel's lines about other GPUs; without addresses, keep all lines."""
    if not pci_addresses:
        return list(lines)
    return [
        line
        for line in lines
        if (named := PCI_ADDRESS.search(line)) is None or named.group() in pci_addresses
    ]


def to_failure(cause: Cause, **details: Any) -> JobFailure:
    """Return the failure of an attempt that a cause ended."""
    row = {} if cause.row is None else {"doctor_row": cause.row}
    return JobFailure(
        code=cause.code,
        message=f"{cause.happened} {cause.fix}",
        retryable=cause.is_retryable,
        details={"cause": cause.name, "fix": cause.fix, **row, **details},
    )


LIBRARY_MISSING = r"\b(lib[\w+-]+\.so[.\d]*): cannot open shared object file"
"""The loader's message; its group is the file."""

PCI_ADDRESS = re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b")

HARMLESS = re.compile(
    r"Missing system database file"  # MIOpen ships none for consumer cards
    r"|IsEnoughWorkspace"
    r"|Pcie atomics not enabled, hostcall not supported"
    r"|hipBLASLt on an unsupported architecture"
    r"|amdgpu\.ids: No such file"
    r"|expandable_segments not supported"
    r"|resource_tracker: There appear to be \d+ leaked"
)
"""Harmless lines that ROCm, MIOpen and torch print on intact machines. Source: ROCm/MIOpen#2981,
ROCm/TheRock#1899, pytorch/pytorch#138067."""


def _cause(
    name: str,
    pattern: str,
    row: int | None,
    code: FailureCode,
    happened: str,
    fix: str,
    *,
    is_retryable: bool,
) -> Cause:
    return Cause(name, re.compile(pattern), row, code, is_retryable, happened, fix)


CAUSES: tuple[Cause, ...] = (
    _cause(
        "gpu_out_of_memory",
        r"(HIP|CUDA) out of memory|torch\.(cuda\.)?OutOfMemoryError|hipErrorOutOfMemory"
        r"|hipErrorMemoryAllocation|CUDA error: out of memory",
        16,
        FailureCode.OUT_OF_MEMORY,
        "The GPU did not have enough memory.",
        "Use a smaller batch_size or image size, or accumulation.",
        is_retryable=False,
    ),
    _cause(
        "no_bf16",
        r"LLVM ERROR: Cannot select: .*bf16|LLVM ERROR: .*fdot2\.bf16",
        20,
        FailureCode.BAD_INPUT,
        "The compiler failed: this GPU has no bf16 instructions, whatever torch reports.",
        "Set training.precision to fp16 or fp32.",
        is_retryable=False,
    ),
    _cause(
        "compiler_died",
        r"LLVM ERROR",
        20,
        FailureCode.CRASHED,
        "The GPU's compiler failed on a kernel and ended the process.",
        "Set training.precision to fp32 and training.compile to false.",
        is_retryable=False,
    ),
    _cause(
        "arch_not_in_build",
        r"invalid device function|no kernel image is available|hipErrorNoBinaryForGpu"
        r"|hipErrorInvalidDeviceFunction|hipErrorInvalidImage|device kernel image is invalid"
        r"|hipErrorInvalidKernelFile|TensileLibrary\S* for GPU arch"
        r"|rocBLAS error: Cannot read",
        1,
        FailureCode.NO_GPU,
        "This build of torch has no kernels for the GPU's architecture.",
        "Install the right build; `redkiln doctor` prints the command.",
        is_retryable=False,
    ),
    _cause(
        "wrong_build",
        r"Torch not compiled with CUDA enabled|Torch not compiled with ROCm",
        2,
        FailureCode.NO_GPU,
        "This build of torch is for CPUs only.",
        "Install AMD's build; `redkiln doctor` prints the command.",
        is_retryable=False,
    ),
    _cause(
        "kfd_closed",
        r"(/dev/kfd|/dev/dri/renderD\d+)\b.{0,40}Permission denied",
        4,
        FailureCode.NO_GPU,
        "The worker's user may not open the GPU's device node.",
        "Add the group that owns the node by its number; `redkiln doctor` prints the line.",
        is_retryable=False,
    ),
    _cause(
        "runtime_refused",
        r"hsa_init\b.{0,80}OUT_OF_RESOURCES",
        6,
        FailureCode.NO_GPU,
        "ROCm's runtime did not start: the driver is too old or too new for it, or it rejected "
        "HSA_OVERRIDE_GFX_VERSION.",
        "Unset the override; update the amdgpu driver to the release of this ROCm.",
        is_retryable=False,
    ),
    _cause(
        "wsl_library",
        r"lib(rocdxg|dxcore)\S*: cannot open shared object",
        22,
        FailureCode.NO_GPU,
        "This container does not contain a library that ROCm needs under WSL2.",
        "Mount libdxcore.so and librocdxg.so, as compose.wsl.yaml does.",
        is_retryable=False,
    ),
    _cause(
        "gpu_not_visible",
        r"No (HIP|CUDA) GPUs are available|no ROCm-capable device|hipErrorNoDevice"
        r"|Unable to open /dev/kfd|HSA_STATUS_ERROR_OUT_OF_RESOURCES",
        3,
        FailureCode.NO_GPU,
        "The GPU is not visible to the worker.",
        "Pass /dev/kfd and its /dev/dri/renderD* node; `redkiln doctor` shows which is missing.",
        is_retryable=True,
    ),
    _cause(
        "illegal_instruction",
        r"HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION|hipErrorIllegalInstruction"
        r"|an illegal instruction was encountered",
        1,
        FailureCode.GPU_FAULT,
        "A kernel contains an instruction that the GPU does not have, so it was built for another "
        "GPU, or wrongly for this one.",
        "Unset HSA_OVERRIDE_GFX_VERSION if it is set; otherwise set training.precision to fp32.",
        is_retryable=False,
    ),
    _cause(
        "blas_refused",
        r"(HIPBLAS|CUBLAS)_STATUS_NOT_SUPPORTED",
        27,
        FailureCode.GPU_FAULT,
        "hipBLASLt has no kernel for a matrix product of this job.",
        "Use rocBLAS: set TORCH_BLAS_PREFER_HIPBLASLT=0, DISABLE_ADDMM_CUDA_LT=1 and "
        "ROCBLAS_USE_HIPBLASLT=0 in worker.env, or in the worker's environment.",
        is_retryable=False,
    ),
    _cause(
        "runtime_compiler_failed",
        r"HIPRTC_ERROR_COMPILATION|[Hh]iprtc\S* .{0,200}error:",
        28,
        FailureCode.CRASHED,
        "HIPRTC, ROCm's compiler for kernels at run time, failed.",
        "Its headers may contradict those of a newer glibc: use the container, or a newer ROCm.",
        is_retryable=False,
    ),
    _cause(
        "graph_failed",
        r"hipGraph\w*.{0,80}(fail|error)|hipErrorStreamCapture\w+",
        29,
        FailureCode.GPU_FAULT,
        "A captured graph of HIP calls failed on this GPU.",
        "Do not capture graphs: in a script leave out torch.cuda.graph and the compile mode "
        "reduce-overhead; Redkiln's own tasks do not capture any.",
        is_retryable=False,
    ),
    _cause(
        "convolution_failed",
        r"miopenStatus[A-Z]\w+|Invalid elapsed time",
        26,
        FailureCode.GPU_FAULT,
        "MIOpen, ROCm's library for convolutions, failed on this GPU.",
        "Train on another GPU, or on the CPU with resources.device: cpu. A newer ROCm may have the "
        "fix.",
        is_retryable=False,
    ),
    _cause(
        "memory_fault",
        r"Memory access fault by GPU|an illegal memory access was encountered"
        r"|hipErrorIllegalAddress|HSA_STATUS_ERROR_(MEMORY_FAULT|MEMORY_APERTURE_VIOLATION)",
        9,
        FailureCode.GPU_FAULT,
        "The GPU accessed memory outside its own; the driver's log (dmesg) has details.",
        "Unset HSA_OVERRIDE_GFX_VERSION if it is set; otherwise a newer ROCm may have the fix.",
        is_retryable=True,
    ),
    _cause(
        "gpu_hang",
        r"HW Exception by GPU|GPU Hang|GPU core dump|unspecified launch failure"
        r"|hipErrorLaunchFailure|HSA_STATUS_ERROR_EXCEPTION|MES.{0,40}REMOVE_QUEUE",
        10,
        FailureCode.GPU_FAULT,
        "The GPU hung and was reset; the driver's log (dmesg) has details.",
        "If it happens again, install newer linux-firmware and a newer kernel, or add "
        "amdgpu.cwsr_enable=0 to the kernel's command line.",
        is_retryable=True,
    ),
    _cause(
        "kernel_database_malformed",
        r"database disk image is malformed|file is not a database",
        14,
        FailureCode.CRASHED,
        "A database of compiled kernels is damaged: two writers, or a network file system.",
        "Remove it; `redkiln doctor` names the file, which is then built again.",
        is_retryable=False,
    ),
    _cause(
        "kernel_database_locked",
        r"(MIOpen|sqlite|kdb|ukdb).{0,200}database is locked",
        14,
        FailureCode.CRASHED,
        "Another process locks the database of compiled kernels.",
        "Set REDKILN_KERNEL_CACHE_DIR to a separate folder for each worker.",
        is_retryable=True,
    ),
    _cause(
        "shared_memory_full",
        r"DataLoader worker .{0,80}Bus error|insufficient shared memory"
        r"|unable to (write|resize|allocate|mmap).{0,120}(shared memory|</torch_)"
        r"|(No space left on device|\[Errno 28\]).{0,120}/dev/shm"
        r"|/dev/shm.{0,120}No space left on device",
        17,
        FailureCode.HOST_OUT_OF_MEMORY,
        "Shared memory (/dev/shm) is too small.",
        "Give the container more: `shm_size: 8g`, or `docker run --shm-size 8G`.",
        is_retryable=False,
    ),
    _cause(
        "collective_hang",
        r"Watchdog caught collective operation timeout|ncclSystemError|ncclUnhandledCudaError"
        r"|NCCL error|ncclRemoteError",
        21,
        FailureCode.NO_PROGRESS,
        "The GPUs did not receive each other's data in time.",
        "Add iommu=pt to the kernel's command line, or set NCCL_P2P_DISABLE=1.",
        is_retryable=True,
    ),
    _cause(
        "disk_full",
        r"No space left on device|Disk quota exceeded|\[Errno (28|122)\]",
        None,
        FailureCode.DISK_FULL,
        "The worker's disk is full.",
        "Free some space in its folder (REDKILN_WORKER_DIR).",
        is_retryable=True,
    ),
    _cause(
        "host_out_of_memory",
        r"MemoryError|Cannot allocate memory|can't allocate memory|std::bad_alloc",
        None,
        FailureCode.HOST_OUT_OF_MEMORY,
        "The worker did not have enough main memory for this job.",
        "Run fewer jobs at once (REDKILN_SLOTS), or use a smaller batch_size.",
        is_retryable=True,
    ),
    _cause(
        "system_library_missing",
        LIBRARY_MISSING,
        24,
        FailureCode.INTERNAL,
        "A library of the system is missing, so torch cannot be imported.",
        "`redkiln doctor` names the package that contains it.",
        is_retryable=False,
    ),
    _cause(
        "broken_installation",
        r"(ModuleNotFoundError|ImportError): ",
        None,
        FailureCode.INTERNAL,
        "The worker's installation is incomplete: a library could not be imported.",
        "Install it again, with its extra `worker`.",
        is_retryable=False,
    ),
)
"""Causes in the output of processes; the first match counts. Source: texts in issues of ROCm/ROCm
(2536, 4554, 5724), pytorch/pytorch (146809, 147626, 150016, 155720, 164346, 193668), ROCm/MIOpen
(1295, 1878, 3964), ROCm/TheRock (4954, 7348), ROCm/rocm-libraries (3550), ROCm/hip (2344), and in
the sources of torch, rocBLAS and the HSA runtime. Unconfirmed, because a search on 2026-11-23 did
not find the threads: ROCm/TheRock#6258 (HIPRTC under a new glibc; cupy/cupy#4782 and
ROCm/MIOpen#1506 show the same words), ROCm/rocm-libraries#12116 (hipBLASLt NOT_SUPPORTED in fp32 on
gfx12)."""

KERNEL_CAUSES: tuple[Cause, ...] = (
    _cause(
        "gpu_hang",
        r"amdgpu.*ring \S+ timeout|MES failed to respond|MES ring buffer is full"
        r"|REMOVE_QUEUE|failed to (remove|unmap) .*queue|amdgpu.*GPU reset begin"
        r"|amdgpu.*GPU reset\(?\d*\)? (failed|succeeded)|amdgpu.*GPU [Rr]ecovery [Ff]ailed"
        r"|VRAM is lost due to GPU reset|HIQ MQD.*not preempted|device wedged",
        10,
        FailureCode.GPU_FAULT,
        "The GPU hung and its driver reset it.",
        "If it happens again, install newer linux-firmware and a newer kernel, or add "
        "amdgpu.cwsr_enable=0 to the kernel's command line.",
        is_retryable=True,
    ),
    _cause(
        "memory_fault",
        r"amdgpu.*\[(gfxhub|mmhub|mmhub0|gfxhub0|vmc)\d*\].*(page|VM) fault"
        r"|amdgpu.*VM_L2_PROTECTION_FAULT_STATUS|amdgpu.*GPU fault detected",
        9,
        FailureCode.GPU_FAULT,
        "The driver reports that the GPU accessed memory outside its own.",
        "Unset HSA_OVERRIDE_GFX_VERSION if it is set; otherwise a newer ROCm may have the fix.",
        is_retryable=True,
    ),
)
"""Causes in the amdgpu driver's messages, the most serious first. Source: drivers/gpu/drm/amd of
the Linux kernel; ROCm/ROCm#5590, #5724, #6386."""
