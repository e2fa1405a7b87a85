"""Opens the device of a run, detects what it can do, and describes it for reports."""

import os
import platform
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch

from redkiln.failure import FailureCode
from redkiln.version import __version__
from redkiln.views.hardware import PatchOutcome
from worker.hardware.doctor.evidence import Torch
from worker.hardware.doctor.gather import SystemPaths, gather
from worker.hardware.facts.targets import find_target
from worker.hardware.health.unavailable import explain_no_gpu
from worker.hardware.rocm_version import read_rocm_version
from worker.process.failed import TrainingFailed
from worker.trainer.patches import has_variable
from worker.trainer.precision import DeviceFacts

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
"""Types of a forward pass; weights are always float32."""


def open_device(
    name: str, *, threads: int, wanted: Literal["any", "gpu", "cpu"] = "any"
) -> torch.device:
    """Open the device that the order names and set the number of intra-op threads.

    Args:
        name: Device as torch names it.
        threads: CPU threads.
        wanted: `resources.device` of the job.

    Raises:
        TrainingFailed: torch cannot open that GPU or has no kernels for it, or the order names a
            CPU for a job that needs a GPU; the message gives the cause and the fix.
    """
    torch.set_num_threads(threads)
    device = torch.device(name)
    if device.type == "cpu":
        if wanted == "gpu":
            raise _no_gpu("the job needs a GPU but was assigned the CPU", None)
        return device
    if not torch.cuda.is_available():
        raise _no_gpu(f"torch cannot open {name} on this worker", None)
    try:
        torch.cuda.set_device(device)
        # Run a first kernel: a build without any for this architecture must fail here.
        torch.zeros(1, device=device).add_(1).item()
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise _no_gpu(f"torch cannot use {name} on this worker", error) from error
    return device


def switch_off_denied(denied: Mapping[str, str]) -> None:
    """Turn off torch kernels that compute wrongly on this GPU; plain kernels replace them."""
    if "fused_attention" in denied:
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)


def _no_gpu(what: str, error: Exception | None) -> TrainingFailed:
    why = explain_no_gpu(
        gather(SystemPaths(), environment=os.environ, torch=_describe_torch(error))
    )
    details = {"cause": why.code, "evidence": why.evidence, "fix": why.fix}
    return TrainingFailed(FailureCode.NO_GPU, f"{what}: {why}", **details)


def _describe_torch(error: Exception | None) -> Torch:
    # Asking for architectures would open a GPU again that has just failed to open.
    is_open = torch.cuda.is_available()
    return Torch(
        version=torch.__version__,
        hip=torch.version.hip,
        rocm=read_rocm_version(torch.version),
        cuda=torch.version.cuda,
        arch_list=tuple(torch.cuda.get_arch_list()) if is_open else (),
        num_devices=torch.cuda.device_count() if is_open else 0,
        error=None if error is None else str(error).splitlines()[0],
    )


def device_facts(device: torch.device, *, patches: Sequence[PatchOutcome] = ()) -> DeviceFacts:
    """Return the facts about a device that decisions depend on, under these patches."""
    if device.type == "cpu":
        return DeviceFacts("cpu", has_bf16=cpu_has_bf16())
    if torch.version.hip is None:
        has_bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
        return DeviceFacts(device.type, has_bf16=has_bf16)
    gfx = torch.cuda.get_device_properties(device).gcnArchName.partition(":")[0]
    suggests_channels_last = has_variable(patches, "PYTORCH_MIOPEN_SUGGEST_NHWC")
    return describe_target(gfx, suggests_channels_last=suggests_channels_last)


def cpu_has_bf16() -> bool:
    """Return whether the CPU has bf16 instructions (AMX, or AVX-512's dot product).

    Without them bf16 is slower than fp32; with them it is measured (`autotune.precision_trial`).
    """
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))


def describe_target(gfx: str, *, suggests_channels_last: bool = False) -> DeviceFacts:
    """Return what the target table says about an AMD GPU, because torch's answers are unreliable.

    Source: pytorch/pytorch#80410: is_bf16_supported() is always true on ROCm.
    """
    target = find_target(gfx)
    denied = {}
    if target is None:
        denied["bf16"] = f"bf16 is not known to work on {gfx}, which is not in the table of targets"
    elif not target.has_bf16:
        denied["bf16"] = (
            f"{gfx} has no bf16 arithmetic, although torch may report it: training would be slow, "
            "or the compiler would crash"
        )
    if target is not None and not target.has_fp16:
        denied["fp16"] = f"{gfx} computes fp16 no faster than fp32"
    return DeviceFacts(
        "cuda",
        has_bf16="bf16" not in denied,
        is_hip=True,
        preferred=target.precision if target else "fp32",
        denied=denied,
        unchosen=target.unchosen_precisions if target else frozenset(("fp16",)),
        suggests_channels_last=suggests_channels_last,
    )


def autocast_of(device: torch.device, precision: str) -> torch.autocast:
    """Return the autocast context of a forward pass at a resolved precision."""
    dtype = DTYPES.get(precision)
    return torch.autocast(device.type, dtype=dtype or torch.bfloat16, enabled=dtype is not None)


def device_name(device: torch.device) -> str:
    """Return the kind of device; two GPUs of the same name compute the same numbers."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_properties(device).name)
    return device.type


def describe_device(device: torch.device) -> dict[str, str]:
    """Return what a checkpoint records about the device it was written on."""
    return {"device_name": device_name(device), "cpu": cpu_name()}


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished its queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def describe_environment(
    device: torch.device, *, threads: int, patches: Sequence[PatchOutcome] = ()
) -> dict[str, Any]:
    """Return the hardware, versions and patches that results depend on, as JSON."""
    environment: dict[str, Any] = {
        "redkiln": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "torch": torch.__version__,
        "device": str(device),
        "threads": threads,
        "cpu": cpu_name(),
        "cpu_cores": os.cpu_count(),
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        environment["gpu"] = properties.name
        environment["gpu_memory_bytes"] = int(properties.total_memory)
        environment["rocm"] = read_rocm_version(torch.version)
        environment["hip"] = torch.version.hip
        environment["cuda"] = torch.version.cuda
    environment["patches"] = [o.model_dump(exclude_defaults=True) for o in patches]
    return environment


@cache
def cpu_name() -> str:
    """Return the CPU's own name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
