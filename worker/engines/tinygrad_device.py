"""Opens tinygrad on a device: its environment before the import, and the adapter's name.

tinygrad reads its environment when it is imported, and so do Mesa and Dawn when they open a device.
Nothing else in Redkiln imports tinygrad.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from redkiln.failure import FailureCode
from worker.engines.kept_programs import KeptPrograms
from worker.engines.opencl_devices import show_all_devices
from worker.process.failed import TrainingFailed

VULKAN = "WEBGPU"
"""The device that Dawn, the WebGPU library, opens through Vulkan; OpenCL's are `CL:<place>`.

`WEBGPU:<vendor>:<device>`, with hexadecimal numbers, is a certain one of several.
"""
CHOOSE = "MESA_VK_DEVICE_SELECT"
"""Lets Mesa's layer list a device first, so that Dawn, which cannot choose, prefers it.

Source: docs.mesa3d.org/envvars.html. `!` asks newer releases to hide the other devices; Mesa 22.3
only changes their order.
"""
LIBRARY = "lib/libwebgpu_dawn_x86_64.so"


@dataclass(frozen=True)
class Opened:
    """tinygrad on one device.

    Attributes:
        tinygrad: The module.
        device: tinygrad's name of the device.
        device_name: The driver's name of it, with the name under which the worker lists it.
        interface: `Vulkan` or `OpenCL`.
        functions: tinygrad's functions for ONNX's operators.
    """

    tinygrad: ModuleType
    device: str
    device_name: str
    interface: str
    functions: Mapping[str, Any]


def open_tinygrad(cache_dir: Path, device: str = VULKAN) -> Opened:
    """Import tinygrad and open a device.

    Args:
        cache_dir: Folder of the worker's caches; kernels are kept in it.
        device: Name of the device.

    Raises:
        TrainingFailed: A package or a driver is missing; the message names it.
    """
    _set_environment(cache_dir)
    is_vulkan = device.partition(":")[0] == VULKAN
    interface, program = ("Vulkan", "vulkaninfo --summary") if is_vulkan else ("OpenCL", "clinfo")
    try:
        tinygrad = importlib.import_module("tinygrad")
        functions = importlib.import_module("tinygrad.nn.onnx").get_onnx_ops()
        name = (_open_vulkan if is_vulkan else _open_opencl)(tinygrad, device)
    # Dawn and the drivers raise errors of many kinds.
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        message = (
            f"the engine tinygrad cannot open {device} with {interface}: {first}; `{program}` must "
            "list a device (docs/engines.md)"
        )
        raise TrainingFailed(FailureCode.NO_GPU, message) from error
    _keep_programs(cache_dir / "tinygrad", f"{interface} {name}")
    shown = f"{name} ({device})"
    return Opened(tinygrad, VULKAN if is_vulkan else device, shown, interface, functions)


def _set_environment(cache_dir: Path) -> None:
    found = importlib.util.find_spec("pydawn")
    if found is None or found.origin is None or importlib.util.find_spec("tinygrad") is None:
        message = (
            "this worker lacks the packages tinygrad and dawn-python; install its extra `vulkan`, "
            "or set resources.engine to torch"
        )
        raise TrainingFailed(FailureCode.NO_GPU, message)
    folder = cache_dir / "tinygrad"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("WEBGPU_PATH", str(Path(found.origin).parent / LIBRARY))
    os.environ.setdefault("CACHEDB", str(folder / "kernels.db"))
    # The drivers' keys in it include the device and the driver.
    os.environ.setdefault("MESA_SHADER_CACHE_DIR", str(folder))
    os.environ.setdefault("POCL_CACHE_DIR", str(folder / "pocl"))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    os.environ.setdefault("WEBGPU_BACKEND", "WGPUBackendType_Vulkan")


def _open_opencl(tinygrad: Any, device: str) -> str:
    show_all_devices()
    return str(tinygrad.Device[device].device_name)


def _open_vulkan(tinygrad: Any, device: str) -> str:
    """Open Dawn's device and return its name as Dawn reports it."""
    wanted = device.partition(":")[2]
    if wanted:
        os.environ[CHOOSE] = f"{wanted}!"
    webgpu = importlib.import_module("tinygrad.runtime.autogen.webgpu")
    info = webgpu.WGPUAdapterInfo()
    webgpu.wgpuDeviceGetAdapterInfo(tinygrad.Device[VULKAN].device_res, info)
    name = str(importlib.import_module("tinygrad.runtime.ops_webgpu").from_wgpu_str(info.device))
    if wanted and wanted != f"{info.vendorID:x}:{info.deviceID:x}":
        raise RuntimeError(f"Dawn opened {name} instead")
    return name


def _keep_programs(folder: Path, device_name: str) -> None:
    """Let tinygrad find the kernels that earlier trainers generated for this device."""
    version = importlib.metadata.version("tinygrad")
    digest = hashlib.sha256(device_name.encode()).hexdigest()[:16]
    kept = KeptPrograms(folder / "programs" / f"{version}-{digest}")
    for name in ("tinygrad.codegen", "tinygrad.engine.realize"):
        importlib.import_module(name).__dict__["to_program_cache"] = kept
