"""Prints what this worker's torch can use as JSON, for the agent, which never imports torch.

`python -m worker.trainer.inventory` prints {"torch_version", "hip_version", "rocm_version",
"cuda_version", "arch_list", "gpus": [GpuView], "packages"}.
"""

import json
import os
import sys
from importlib.util import find_spec
from typing import Any

import torch

from redkiln.views.worker import GpuView
from worker.hardware.facts.compilers import find_compiler_obstacle
from worker.hardware.health.selftest_cache import choose_precisions
from worker.hardware.rocm_version import read_rocm_version

OPTIONAL = {
    "timm": ("timm",),
    "torchvision": ("torchvision",),
    "torchao": ("torchao",),
    "tinygrad": ("tinygrad", "pydawn"),
}
"""Packages that only some jobs need, with the modules of each: models with `source: timm`,
int8-qat, and jobs with `resources.engine: tinygrad`."""
COMPILER = "compiler"
"""Listed like a package where torch.compile has what it needs."""


def detect_gpus() -> list[GpuView]:
    """Return the GPUs that torch can open in this process's environment."""
    if not torch.cuda.is_available():
        return []
    return [_view(index) for index in range(torch.cuda.device_count())]


def list_arches() -> list[str]:
    """Return the architectures torch has kernels for, even where torch can open no GPU."""
    if torch.cuda.is_available():
        return torch.cuda.get_arch_list()
    read_flags = getattr(torch._C, "_cuda_getArchFlags", None)  # missing from CPU builds
    flags = read_flags() if read_flags is not None else None
    return flags.split() if flags else []


def list_packages(kind: str) -> list[str]:
    """Return what only some jobs need and this worker has.

    Args:
        kind: Torch's type of the devices that it trains on.
    """
    found = [
        name
        for name, modules in OPTIONAL.items()
        if all(find_spec(module) is not None for module in modules)
    ]
    return found if find_compiler_obstacle(kind, os.environ) else [*found, COMPILER]


def main() -> None:
    """Print the inventory."""
    gpus = detect_gpus()
    inventory = {
        "torch_version": torch.__version__,
        "hip_version": torch.version.hip,
        "rocm_version": read_rocm_version(torch.version),
        "cuda_version": torch.version.cuda,
        "arch_list": list_arches(),
        "gpus": [gpu.model_dump() for gpu in gpus],
        "packages": list_packages("cuda" if gpus else "cpu"),
    }
    sys.stdout.write(json.dumps(inventory) + "\n")


def _view(index: int) -> GpuView:
    properties = torch.cuda.get_device_properties(index)
    # ROCm builds name the ISA (gfx1100:xnack-), CUDA builds only a capability.
    isa = getattr(properties, "gcnArchName", "") if torch.version.hip else ""
    arch = isa.split(":")[0] or f"sm_{properties.major}{properties.minor}"
    return GpuView(
        index=index,
        name=properties.name,
        arch=arch,
        memory_bytes=int(properties.total_memory),
        pci_address=name_pci_address(properties),
        has_bf16="bf16" in choose_precisions("cuda", gfx=arch),
    )


def name_pci_address(properties: Any) -> str | None:
    """Return a device's PCI address from torch's properties, which lack the function number.

    None on builds without `pci_bus_id`.
    """
    bus = getattr(properties, "pci_bus_id", None)
    if bus is None:
        return None
    return f"{properties.pci_domain_id:04x}:{bus:02x}:{properties.pci_device_id:02x}.0"


if __name__ == "__main__":
    main()
