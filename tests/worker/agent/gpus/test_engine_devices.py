"""Which devices a worker offers for other engines than torch."""

import pytest

from worker.agent.gpus.engine_devices import (
    choose_device,
    describe_devices,
    join_devices,
    list_lease_keys,
    name_device,
    offer_engines,
)
from worker.agent.inventory import Inventory, add_engines
from worker.hardware.facts.opencl import OpenclDevice
from worker.hardware.facts.vulkan import DisplayCard, VulkanDevice

RADEON = VulkanDevice("RX 580", "DISCRETE_GPU", 0x1002, 0x67DF, "radv Mesa 25.2.0")
SOFTWARE = VulkanDevice("llvmpipe", "CPU", 0x10005, 0, "llvmpipe")
RADEON_CARD = DisplayCard("0000:03:00.0", 0x1002, 0x67DF)
ARC_CARD = DisplayCard("0000:04:00.0", 0x8086, 0x56A0)
ARC = OpenclDevice(1, "Intel(R) Arc(TM) A770", "GPU", 0x8086, "OpenCL 24.2", "0000:04:00.0")
RUSTICL = OpenclDevice(2, "RX 580 (radeonsi)", "GPU", 0x1002, "OpenCL 25.2", None)
POCL = OpenclDevice(0, "pthread-skylake", "CPU", 0x8086, "OpenCL 3.1", None)


def describe(vulkan=(), opencl=(), *, settings=("auto", "auto"), packages=True, torch=False):
    found = join_devices(vulkan, opencl)
    chosen = choose_device(found, vulkan=settings[0], opencl=settings[1])
    devices = describe_devices(found, chosen, has_packages=packages, has_torch_gpu=torch)
    return found, devices, name_device(chosen)


@pytest.mark.parametrize(
    ("pair", "options", "why"),
    [
        ((RADEON, RADEON_CARD), {}, None),
        ((SOFTWARE, None), {}, "runs on the CPU"),
        ((SOFTWARE, None), {"settings": ("software", "auto")}, None),
        ((None, RADEON_CARD), {}, "no Vulkan or OpenCL driver"),
        ((RADEON, RADEON_CARD), {"packages": False}, "pip install -e"),
        ((RADEON, RADEON_CARD), {"torch": True}, "trains with torch"),
    ],
)
def test_a_device_is_offered_or_the_reason_is_reported(pair, options, why):
    _, (device,), _ = describe([pair], **options)
    assert (device.excluded is None) if why is None else (why in device.excluded)
    expected = ["mlflow", "tinygrad"] if why is None else ["mlflow"]
    assert offer_engines(["mlflow", "tinygrad"], [device]) == expected


@pytest.mark.parametrize(
    ("vulkan", "opencl", "settings", "name", "usable"),
    [
        # The card is known by its address, or by its vendor if the driver reports no address.
        ([(RADEON, RADEON_CARD)], [(RUSTICL, RADEON_CARD)], ("auto", "auto"), "WEBGPU", ["RX 580"]),
        ([(RADEON, RADEON_CARD)], [(RUSTICL, None)], ("auto", "auto"), "WEBGPU", ["RX 580"]),
        # Only OpenCL lists the card, or Vulkan is not wanted.
        ([(None, ARC_CARD)], [(ARC, ARC_CARD)], ("auto", "auto"), "CL:1", [ARC.name]),
        ([(SOFTWARE, None)], [(ARC, ARC_CARD)], ("auto", "auto"), "CL:1", [ARC.name]),
        ([], [(RUSTICL, RADEON_CARD)], ("off", "auto"), "CL:2", [RUSTICL.name]),
        # A worker uses one OpenCL device.
        ([], [(ARC, ARC_CARD), (RUSTICL, None)], ("off", "auto"), "CL:1", [ARC.name]),
        ([(SOFTWARE, None)], [(POCL, None)], ("auto", "auto"), None, []),
        ([], [(POCL, None)], ("off", "software"), "CL:0", [POCL.name]),
    ],
)
def test_each_gpu_is_listed_once_and_vulkan_is_preferred(vulkan, opencl, settings, name, usable):
    found, devices, chosen = describe(vulkan, opencl, settings=settings)
    assert chosen == name
    assert [device.name for device in devices if device.excluded is None] == usable
    cards = [card for _, card in found if card is not None]
    assert len(cards) == len(set(cards))


def test_a_gpu_that_only_opencl_lists_is_named_with_the_setting_that_uses_it():
    found, devices, chosen = describe([(RADEON, RADEON_CARD), (None, ARC_CARD)], [(ARC, ARC_CARD)])
    assert chosen == "WEBGPU"
    assert [device.name for device in devices] == ["RX 580", ARC.name]
    assert "REDKILN_VULKAN=off" in devices[1].excluded
    assert list_lease_keys(found, devices) == [RADEON_CARD.pci_address]


def test_drivers_that_are_off_are_not_asked(settings):
    def refuse():
        raise AssertionError("asked")

    off = settings.model_copy(update={"vulkan": "off", "opencl": "off"})
    found = add_engines(Inventory(packages=["tinygrad"]), off, find=refuse, find_others=refuse)
    assert (found.engine_devices, found.packages, found.engine_device) == ([], [], None)


def test_a_job_gets_the_opencl_device_that_is_listed(settings):
    found = add_engines(
        Inventory(packages=["tinygrad"]),
        settings,
        find=lambda: [(None, ARC_CARD)],
        find_others=lambda: [(ARC, ARC_CARD)],
    )
    assert (found.engine_device, found.engine_keys) == ("CL:1", [ARC_CARD.pci_address])
