"""The device of a benchmark: its abilities, and its description for the report."""

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
from worker.hardware.rocm_version import read_rocm_version
from worker.hardware.selftest.run import describe_device

MEMINFO = Path("/proc/meminfo")
CPUINFO = Path("/proc/cpuinfo")
FP16_FLAGS = frozenset({"avx512_fp16", "fphp"})
"""Flags of x86 and of Arm. Source: Linux, arch/x86/include/asm/cpufeatures.h and
Documentation/arch/arm64/elf_hwcaps.rst."""


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished all of its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def find_gpus(device: torch.device, *, num_gpus: int) -> list[GpuFacts]:
    """Return facts of the GPUs that torch sees, matched by PCI address; else what torch reports."""
    if device.type != "cuda":
        return []
    known = {gpu.pci_address: gpu for gpu in discover_gpus() if gpu.pci_address}
    found = []
    for index in range(num_gpus):
        seen = describe_device(torch.device("cuda", index))
        address = seen["pci_address"] or ""
        blank = GpuFacts(gfx=seen["gfx"], name=seen["name"], pci_address=address or None)
        found.append(known.get(address, blank))
    return found


def ask_device(
    device: torch.device, *, precisions: Sequence[Precision], num_gpus: int
) -> DeviceFacts:
    """Return the facts for the plan; a type is refused by the table of targets or by a trial."""
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
    """Return why a type is not even tried; None if it is.

    A GPU's compiler may abort the process for a type that the table of targets excludes; a CPU
    without half-precision arithmetic converts every number twice, hundreds of times slower.
    """
    if kind == "gpu":
        if precision in choose_precisions("cuda", gfx=gfx):
            return None
        return f"{gfx} has no {precision} arithmetic that is known to be right"
    if precision == "fp16" and not FP16_FLAGS.intersection(cpu_flags):
        return "this CPU has no fp16 arithmetic"
    return None


def describe_machine(device: torch.device, *, gpus: list[GpuFacts]) -> Machine:
    """Describe the machine on which the numbers were measured."""
    is_gpu = device.type == "cuda"
    facts = describe_device(device)
    cpu = _read_cpu_name()
    return Machine(
        hostname=socket.gethostname(),
        kind="gpu" if is_gpu else "cpu",
        device=str(facts["name"]) if is_gpu else cpu,
        gfx=facts.get("gfx"),
        cpu=cpu,
        num_cores=len(os.sched_getaffinity(0)),
        num_threads=torch.get_num_threads(),
        memory_bytes=torch.cuda.mem_get_info(device)[1] if is_gpu else None,
        gpus=gpus,
        versions={
            "redkiln": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "rocm": read_rocm_version(torch.version),
            "hip": torch.version.hip,
            "cuda": torch.version.cuda,
            "kernel": platform.release(),
        },
    )


def read_free_memory(path: Path = MEMINFO) -> int:
    """Return the bytes of main memory that are available without swapping."""
    for line in path.read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    raise RuntimeError(f"{path} contains no MemAvailable")


def read_cpu_flags(path: Path = CPUINFO) -> frozenset[str]:
    """Return the CPU's abilities, by the kernel's names."""
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
