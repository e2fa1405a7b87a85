"""Shows tinygrad the OpenCL devices of all drivers; by itself it uses the first driver alone.

Devices have the order of the OpenCL library, as in `worker.hardware.facts.opencl`.
"""

import ctypes
import importlib
from typing import Any


def show_all_devices() -> None:
    """Let `CL:<place>` be a place among the devices of all drivers."""
    cl = importlib.import_module("tinygrad.runtime.autogen.opencl")
    found = [one for platform in _list_platforms(cl) for one in _list_devices(cl, platform)]
    importlib.import_module("tinygrad.runtime.ops_cl").CLDevice.device_ids = found


def _list_platforms(cl: Any) -> list[Any]:
    num = ctypes.c_uint32()
    cl.clGetPlatformIDs(0, None, num)
    platforms = (cl.cl_platform_id * num.value)()
    cl.clGetPlatformIDs(num.value, platforms, None)
    return list(platforms)


def _list_devices(cl: Any, platform: Any) -> list[Any]:
    # A driver without a device answers with an error and leaves the number at 0.
    num = ctypes.c_uint32()
    cl.clGetDeviceIDs(platform, cl.CL_DEVICE_TYPE_ALL, 0, None, num)
    devices = (cl.cl_device_id * num.value)()
    cl.clGetDeviceIDs(platform, cl.CL_DEVICE_TYPE_ALL, num.value, devices, None)
    return list(devices)
