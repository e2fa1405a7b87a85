"""Opens tinygrad on a device: its environment before the import, and the adapter's name.

tinygrad reads its environment when it is imported, and so do Mesa and Dawn when they open a device.
Nothing else in Redkiln imports tinygrad.
"""

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from redkiln.failure import FailureCode
from worker.process.failed import TrainingFailed

DEVICE = "WEBGPU"
LIBRARY = "lib/libwebgpu_dawn_x86_64.so"


@dataclass(frozen=True)
class Opened:
    """tinygrad on one device.

    Attributes:
        tinygrad: The module.
        device: tinygrad's name of the device.
        device_name: The driver's name of it.
        functions: tinygrad's functions for ONNX's operators.
    """

    tinygrad: ModuleType
    device: str
    device_name: str
    functions: Mapping[str, Any]


def open_tinygrad(cache_dir: Path) -> Opened:
    """Import tinygrad and open its WebGPU device.

    Args:
        cache_dir: Folder of the worker's caches; the driver keeps compiled kernels in it.

    Raises:
        TrainingFailed: A package or a Vulkan driver is missing; the message names it.
    """
    _set_environment(cache_dir)
    try:
        tinygrad = importlib.import_module("tinygrad")
        functions = importlib.import_module("tinygrad.nn.onnx").get_onnx_ops()
        device = tinygrad.Device[DEVICE]
    # Dawn and the driver raise errors of many kinds.
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        message = (
            f"the engine tinygrad cannot open a Vulkan device: {first}; `vulkaninfo --summary` "
            "must list one (docs/engines.md)"
        )
        raise TrainingFailed(FailureCode.NO_GPU, message) from error
    return Opened(tinygrad, DEVICE, _read_adapter(device), functions)


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
    # Mesa's keys in it include the device and the driver.
    os.environ.setdefault("MESA_SHADER_CACHE_DIR", str(folder))
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    os.environ.setdefault("WEBGPU_BACKEND", "WGPUBackendType_Vulkan")


def _read_adapter(device: Any) -> str:
    """Return the adapter's name as Dawn reports it."""
    webgpu = importlib.import_module("tinygrad.runtime.autogen.webgpu")
    info = webgpu.WGPUAdapterInfo()
    webgpu.wgpuDeviceGetAdapterInfo(device.device_res, info)
    name = importlib.import_module("tinygrad.runtime.ops_webgpu").from_wgpu_str(info.device)
    return str(name)
