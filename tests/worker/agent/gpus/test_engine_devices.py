"""Which devices a worker offers for other engines than torch."""

import pytest

from worker.agent.gpus.engine_devices import (
    describe_devices,
    find_obstacle,
    join_devices,
    offer_engines,
)
from worker.agent.gpus.engine_places import EnginePlace, count_gpus, plan_places
from worker.agent.inventory import Inventory, add_engines, plan_slots
from worker.hardware.facts.opencl import OpenclDevice
from worker.hardware.facts.vulkan import DisplayCard, VulkanDevice

RADEON = VulkanDevice("RX 580", "DISCRETE_GPU", 0x1002, 0x67DF, "radv Mesa 25.2.0")
VULKAN_ARC = VulkanDevice("Intel Arc A770", "DISCRETE_GPU", 0x8086, 0x56A0, "anv Mesa 25.2.0")
SOFTWARE = VulkanDevice("llvmpipe", "CPU", 0x10005, 0, "llvmpipe")
RADEON_CARD = DisplayCard("0000:03:00.0", 0x1002, 0x67DF)
SECOND_CARD = DisplayCard("0000:06:00.0", 0x1002, 0x67DF)
ARC_CARD = DisplayCard("0000:04:00.0", 0x8086, 0x56A0)
ARC = OpenclDevice(1, "Arc A770", "GPU", 0x8086, "OpenCL 24.2", "0000:04:00.0", "INTEL")
RUSTICL = OpenclDevice(2, "RX 580 (radeonsi)", "GPU", 0x1002, "OpenCL 25.2", None, "MESA")
SECOND = OpenclDevice(3, "RX 580 (radeonsi)", "GPU", 0x1002, "OpenCL 25.2", None, "MESA")
OTHER_DRIVER = OpenclDevice(4, "gfx803", "GPU", 0x1002, "OpenCL 2.0", None, "AMD")
POCL = OpenclDevice(0, "pthread-skylake", "CPU", 0x8086, "OpenCL 3.1", None, "POCL")
SECOND_POCL = OpenclDevice(1, "pthread-skylake", "CPU", 0x8087, "OpenCL 3.1", None, "POCL")


def describe(
    vulkan=(),
    opencl=(),
    *,
    settings=("auto", "auto"),
    packages=True,
    torch=False,
    slots=None,
    opens=lambda _: True,
):
    found = join_devices(vulkan, opencl)
    places = plan_places(found, vulkan=settings[0], opencl=settings[1], opens=opens)
    obstacle = find_obstacle(has_packages=packages, has_torch_gpu=torch)
    num_slots = slots or count_gpus(places) or 1
    return places, describe_devices(found, places, num_slots=num_slots, obstacle=obstacle)


@pytest.mark.parametrize(
    ("pair", "options", "why"),
    [
        ((RADEON, RADEON_CARD), {}, None),
        ((SOFTWARE, None), {}, "runs on the CPU"),
        ((SOFTWARE, None), {"settings": ("software", "auto")}, None),
        ((None, RADEON_CARD), {}, "no Vulkan or OpenCL driver"),
    ],
)
def test_a_device_is_offered_or_the_reason_is_reported(pair, options, why):
    _, (device,) = describe([pair], **options)
    assert (device.excluded is None) if why is None else (why in device.excluded)
    expected = ["mlflow", "tinygrad"] if why is None else ["mlflow"]
    assert offer_engines(["mlflow", "tinygrad"], [device]) == expected


@pytest.mark.parametrize(
    ("packages", "gpus", "why"),
    [([], [], "pip install -e"), (["tinygrad"], [{"index": 0, "name": "MI300"}], "with torch")],
)
def test_a_worker_that_cannot_use_a_gpu_with_tinygrad_says_why(settings, packages, gpus, why):
    found = add_engines(
        Inventory(packages=packages, gpus=gpus),
        settings,
        opens=lambda _: True,
        find=lambda: [(RADEON, RADEON_CARD)],
        find_others=list,
    )
    assert why in found.engine_devices[0].excluded
    assert (found.engine_places, found.packages) == ([], [])


@pytest.mark.parametrize(
    ("vulkan", "opencl", "settings", "devices", "usable"),
    [
        # The card is known by its address, or by its vendor if the driver reports no address.
        ([(RADEON, RADEON_CARD)], [(RUSTICL, RADEON_CARD)], "auto", ["WEBGPU"], [RADEON]),
        ([(RADEON, RADEON_CARD)], [(RUSTICL, None)], "auto", ["WEBGPU"], [RADEON]),
        # Only OpenCL lists the card, or Vulkan is not wanted.
        ([(None, ARC_CARD)], [(ARC, ARC_CARD)], "auto", ["CL:1"], [ARC]),
        ([(SOFTWARE, None)], [(ARC, ARC_CARD)], "auto", ["CL:1"], [ARC]),
        ([], [(RUSTICL, RADEON_CARD)], "auto", ["CL:2"], [RUSTICL]),
        # Each GPU of either driver.
        ([], [(ARC, ARC_CARD), (RUSTICL, None)], "auto", ["CL:1", "CL:2"], [ARC, RUSTICL]),
        ([], [(RUSTICL, None), (SECOND, None)], "auto", ["CL:2", "CL:3"], [RUSTICL, SECOND]),
        (
            [(RADEON, RADEON_CARD), (None, ARC_CARD)],
            [(ARC, ARC_CARD)],
            "auto",
            ["WEBGPU", "CL:1"],
            [RADEON, ARC],
        ),
        # Another driver of the same vendor may list the same GPU again.
        ([], [(RUSTICL, None), (OTHER_DRIVER, None)], "auto", ["CL:2"], [RUSTICL]),
        ([(SOFTWARE, None)], [(POCL, None)], "auto", [], []),
        (
            [],
            [(POCL, None), (SECOND_POCL, None)],
            "software",
            ["CL:0", "CL:1"],
            [POCL, SECOND_POCL],
        ),
        ([(SOFTWARE, None)], [(POCL, None)], "software", ["WEBGPU"], [SOFTWARE]),
        ([(SOFTWARE, None)], [(ARC, ARC_CARD)], "software", ["CL:1"], [ARC]),
    ],
)
def test_each_gpu_is_one_device_and_vulkan_is_preferred(vulkan, opencl, settings, devices, usable):
    places, described = describe(vulkan, opencl, settings=(settings, settings))
    assert [place.device for place in places] == devices
    used = [one for one in described if one.excluded is None]
    # Software is shared, so a worker has one slot for it unless its settings differ.
    num_used = 1 if used and used[0].is_software else len(usable)
    assert [one.name for one in used] == [device.name for device in usable][:num_used]
    assert [one.device for one in used] == devices[:num_used]
    addresses = [one.pci_address for one in described if one.pci_address is not None]
    assert len(addresses) == len(set(addresses))


def test_each_slot_gets_a_gpu_and_its_lease(settings):
    found = add_engines(
        Inventory(packages=["tinygrad"]),
        settings.model_copy(update={"slots": None}),
        opens=lambda _: True,
        find=list,
        find_others=lambda: [(ARC, ARC_CARD), (RUSTICL, None), (SECOND, None)],
    )
    slots = plan_slots(found, [], num_cores=6, wanted=None, threads=None)
    assert [slot.engine for slot in slots] == [
        EnginePlace("CL:1", (0,), (ARC_CARD.pci_address,)),
        EnginePlace("CL:2", (1,), ("opencl-RX-580-radeonsi",)),
        EnginePlace("CL:3", (2,), ("opencl-RX-580-radeonsi-2",)),
    ]
    assert [slot.threads for slot in slots] == [2, 2, 2]
    assert [device.slots for device in found.engine_devices] == [[1], [2], [3]]


def test_more_slots_than_gpus_share_them_and_fewer_leave_some_idle():
    pairs = [(ARC, ARC_CARD), (RUSTICL, None)]
    _, devices = describe(opencl=pairs, slots=3)
    assert [device.slots for device in devices] == [[1, 3], [2]]
    _, devices = describe(opencl=pairs, slots=1)
    assert [device.slots for device in devices] == [[1], []]
    assert "raise REDKILN_SLOTS" in devices[1].excluded


def test_vulkan_gpus_are_used_if_dawn_can_be_made_to_open_them():
    pairs = [(RADEON, RADEON_CARD), (VULKAN_ARC, ARC_CARD)]
    places, _ = describe(pairs)
    assert places == [
        EnginePlace("WEBGPU:1002:67df", (0,), (RADEON_CARD.pci_address,)),
        EnginePlace("WEBGPU:8086:56a0", (1,), (ARC_CARD.pci_address,)),
    ]
    places, devices = describe(pairs, opens="WEBGPU:8086:56a0".__eq__)
    assert [place.keys for place in places] == [(ARC_CARD.pci_address,)]
    assert "opens another Vulkan GPU" in devices[0].excluded
    # If nothing could be tried, Dawn's choice is not known, and a job leases both.
    places, devices = describe(pairs, opens=lambda _: False)
    keys = (RADEON_CARD.pci_address, ARC_CARD.pci_address)
    assert places == [EnginePlace("WEBGPU", (0, 1), keys)]
    assert devices[0].excluded is None
    assert "idle, or used instead of RX 580" in devices[1].excluded


def test_identical_vulkan_gpus_are_one_device_because_dawn_does_not_distinguish_them():
    def refuse(device):
        raise AssertionError(f"{device} needs no trial")

    places, devices = describe([(RADEON, RADEON_CARD), (RADEON, SECOND_CARD)], opens=refuse)
    keys = (RADEON_CARD.pci_address, SECOND_CARD.pci_address)
    assert places == [EnginePlace("WEBGPU", (0, 1), keys)]
    assert [device.slots for device in devices] == [[1], []]
    assert "REDKILN_VULKAN=off" in devices[1].excluded


def test_drivers_that_are_off_are_not_asked(settings):
    def refuse():
        raise AssertionError("asked")

    off = settings.model_copy(update={"vulkan": "off", "opencl": "off"})
    inventory = Inventory(packages=["tinygrad"])
    found = add_engines(inventory, off, opens=refuse, find=refuse, find_others=refuse)
    assert (found.engine_devices, found.packages, found.engine_places) == ([], [], [])
