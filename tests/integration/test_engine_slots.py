"""Two jobs train with tinygrad at once, each on its own device, in software."""

import os
import shutil
from pathlib import Path

import pytest

from tests.integration import warm_forks
from tests.integration.conftest import start_site
from worker.hardware.facts.opencl import ask_opencl, parse_clinfo
from worker.hardware.facts.vulkan import ask_vulkan, parse_summary

PATIENCE_SECONDS = 240
pytestmark = [pytest.mark.integration, pytest.mark.timeout(3 * PATIENCE_SECONDS)]

DRIVERS = (
    Path("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json"),
    Path("/usr/lib/chromium/vk_swiftshader_icd.json"),
)
"""Mesa's and Chromium's Vulkan in software."""
SPELLINGS = ("cpu", "pthread")
"""Names of pocl's driver for CPUs, in new and old releases."""


@pytest.fixture
def two_devices(request, monkeypatch):
    """Settings of a worker for two devices of an interface."""
    return (two_of_opencl if request.param == "OpenCL" else two_of_vulkan)(monkeypatch)


def two_of_opencl(monkeypatch):
    for name in SPELLINGS:
        monkeypatch.setenv("POCL_DEVICES", f"{name} {name}")
        if len(parse_clinfo(ask_opencl())) == 2:
            return {"REDKILN_VULKAN": "off", "REDKILN_OPENCL": "software"}
    return skip_or_fail("REDKILN_REQUIRE_OPENCL", "two OpenCL devices; install pocl-opencl-icd")


def two_of_vulkan(monkeypatch):
    monkeypatch.setenv("VK_DRIVER_FILES", ":".join(map(str, DRIVERS)))
    if shutil.which("vulkaninfo") and len(parse_summary(ask_vulkan())) == 2:
        return {"REDKILN_VULKAN": "software", "REDKILN_OPENCL": "off"}
    return skip_or_fail("REDKILN_REQUIRE_VULKAN", "mesa-vulkan-drivers and chromium")


def skip_or_fail(variable, what):
    if variable in os.environ:
        pytest.fail(f"CI must have {what}")
    pytest.skip(f"needs {what}")


@pytest.mark.parametrize("two_devices", ["OpenCL", "Vulkan"], indirect=True)
def test_two_jobs_train_at_once_on_two_devices(two_devices, tmp_path_factory):
    path = tmp_path_factory.mktemp("forks") / "socket"
    with warm_forks.serving(path) as server:
        settings = {**two_devices, "REDKILN_SLOTS": "2", "REDKILN_SPARE": "0"}
        commands = warm_forks.list_commands(path)
        sites = start_site(tmp_path_factory, forks_of=server.pid, **settings, **commands)
        for site in sites:
            train_two(site)


def train_two(site):
    (worker,) = site.client.workers()
    devices = [device for device in worker.engine_devices if device.excluded is None]
    assert [device.slots for device in devices] == [[1], [2]]

    jobs = [
        site.submit(
            dataset="builtin:iris",
            model={"name": "mlp", "options": {"hidden": [8]}},
            epochs=100_000,
            resources={"engine": "tinygrad"},
        )
        for _ in devices
    ]
    for job in jobs:
        site.wait_for(lambda job=job: site.client.job(job).progress, seconds=PATIENCE_SECONDS)
    assert [str(site.client.job(job).status) for job in jobs] == ["running", "running"]

    def device_of(job):
        return site.events(job, "resolved")[-1].data["environment"]["engine_device"]

    names = {f"{device.name} ({device.device})" for device in devices}
    assert len(names) == 2
    assert {device_of(job) for job in jobs} == names

    for job in jobs:
        site.client.finish(job)
    for job in jobs:
        site.wait_for_success(job, seconds=PATIENCE_SECONDS)
        (result,) = site.events(job, "result")
        assert result.data["verified"] is True
