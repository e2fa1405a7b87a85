"""The device of a benchmark: asked what it is, and described for whoever reads the numbers."""

import os
import platform
import socket
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

import torch

from redkiln.version import __version__
from redkiln.views.benchmark import Machine
from redkiln.views.hardware import GpuFacts, Precision
from worker.hardware.benchmark.operations import probe
from worker.hardware.benchmark.plan import DeviceFacts
from worker.hardware.facts.discover import discover_gpus
from worker.hardware.health.selftest_cache import choose_precisions
from worker.hardware.selftest.run import describe_device

MEMINFO = Path("/proc/meminfo")
CPUINFO = Path("/proc/cpuinfo")
FP16_FLAGS = frozenset({"avx512_fp16", "fphp"})
"""Of x86 and of Arm. Source: Linux, arch/x86/include/asm/cpufeatures.h and
Documentation/arch/arm64/elf_hwcaps.rst."""


def synchronize(device: torch.device) -> None:
    """Wait until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def find_gpus(device: torch.device, *, num_gpus: int) -> list[GpuFacts]:
    """Facts of the GPUs that torch sees, by their PCI addresses; of others what torch tells."""
    if device.type != "cuda":
        return []
    known = {gpu.pci_address: gpu for gpu in discover_gpus() if gpu.pci_address}
    found = []
    for index in range(num_gpus):
        told = describe_device(torch.device("cuda", index))
        address = told["pci_address"] or ""
        blank = GpuFacts(gfx=told["gfx"], name=told["name"], pci_address=address or None)
        found.append(known.get(address, blank))
    return found


def ask_device(
    device: torch.device, *, precisions: Sequence[Precision], num_gpus: int
) -> DeviceFacts:
    """What decides the plan. A type is refused by the table of targets, or by trying it once."""
    kind: Literal["gpu", "cpu"] = "gpu" if device.type == "cuda" else "cpu"
    flags = read_cpu_flags() if kind == "cpu" else frozenset()
    refused = {}
    for precision in precisions:
        why = refuse_precision(precision, kind=kind, gfx=_target(device), cpu_flags=flags)
        why = why or _try(precision, device)
        if why is not None:
            refused[precision] = why
    free = torch.cuda.mem_get_info(device)[0] if kind == "gpu" else read_free_memory()
    return DeviceFacts(kind, free_bytes=free, num_gpus=num_gpus, refused=refused)


def refuse_precision(
    precision: Precision,
    *,
    kind: Literal["gpu", "cpu"],
    gfx: str | None,
    cpu_flags: Collection[str],
) -> str | None:
    """Why a type is not even tried; None when it is.

    A GPU's compiler may end the process where the table of targets denies a type; a CPU without
    half-precision arithmetic converts each number there and back, hundreds of times slower.
    """
    if kind == "gpu":
        if precision in choose_precisions("cuda", gfx=gfx):
            return None
        return f"{gfx} has no {precision} arithmetic that is known to be right"
    if precision == "fp16" and not FP16_FLAGS.intersection(cpu_flags):
        return "this CPU has no fp16 arithmetic"
    return None


def describe_machine(device: torch.device, *, gpus: list[GpuFacts]) -> Machine:
    """Where the numbers come from."""
    is_gpu = device.type == "cuda"
    told = describe_device(device)
    cpu = _read_cpu_name()
    return Machine(
        hostname=socket.gethostname(),
        kind="gpu" if is_gpu else "cpu",
        device=str(told["name"]) if is_gpu else cpu,
        gfx=told.get("gfx"),
        cpu=cpu,
        num_cores=len(os.sched_getaffinity(0)),
        num_threads=torch.get_num_threads(),
        memory_bytes=torch.cuda.mem_get_info(device)[1] if is_gpu else None,
        gpus=gpus,
        versions={
            "redkiln": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "hip": torch.version.hip,
            "cuda": torch.version.cuda,
            "kernel": platform.release(),
        },
    )


def read_free_memory(path: Path = MEMINFO) -> int:
    """Bytes of main memory that can be had without swapping."""
    for line in path.read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    raise RuntimeError(f"{path} does not tell MemAvailable")


def read_cpu_flags(path: Path = CPUINFO) -> frozenset[str]:
    """What the CPU can do, by the kernel's names."""
    for line in path.read_text().splitlines():
        name, _, rest = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(rest.split())
    return frozenset()


def _target(device: torch.device) -> str | None:
    return describe_device(device).get("gfx")


def _try(precision: Precision, device: torch.device) -> str | None:
    try:
        probe(precision, device=device)
    except RuntimeError as error:
        return str(error).splitlines()[0][:200]
    return None


def _read_cpu_name() -> str:
    for line in CPUINFO.read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
