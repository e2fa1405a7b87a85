"""tinygrad on software Vulkan (Mesa's lavapipe) and OpenCL (pocl), which `.ci/run` installs."""

import importlib.util
import os
import shutil

import pytest

from tests.worker.training import fake_device, make_event_log, run_out_of_memory, start
from worker.engines.tinygrad_device import open_tinygrad
from worker.hardware.facts.opencl import find_opencl

__all__ = ["fake_device", "make_event_log", "run_out_of_memory", "start"]


def is_missing():
    packages = [name for name in ("tinygrad", "pydawn") if importlib.util.find_spec(name) is None]
    programs = [] if shutil.which("vulkaninfo") else ["vulkaninfo"]
    return [*packages, *programs]


@pytest.fixture(scope="session")
def opened(tmp_path_factory):
    if missing := is_missing():
        if "REDKILN_REQUIRE_VULKAN" in os.environ:
            pytest.fail(f"CI must have {', '.join(missing)}")
        pytest.skip(f"needs {', '.join(missing)}; `make dev` and mesa-vulkan-drivers")
    return open_tinygrad(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def opencl():
    """tinygrad's name of an OpenCL device that computes on the CPU."""
    place = next((device.place for device, _ in find_opencl() if device.is_software), None)
    if place is None:
        if "REDKILN_REQUIRE_OPENCL" in os.environ:
            pytest.fail("CI must have clinfo and pocl-opencl-icd")
        pytest.skip("needs clinfo and pocl-opencl-icd")
    return f"CL:{place}"
