"""Devices that train with another engine than torch, and whether this worker offers them."""

import re
from collections.abc import Sequence
from typing import Literal

from redkiln.views.worker import EngineDevice
from worker.hardware.facts.opencl import OpenclDevice
from worker.hardware.facts.vulkan import NO_DRIVER, DisplayCard, VulkanDevice

ENGINE = "tinygrad"
VULKAN = "WEBGPU"
"""tinygrad's name of the device that Dawn, the WebGPU library, opens through Vulkan."""
Wanted = Literal["auto", "software", "off"]
Device = VulkanDevice | OpenclDevice
Found = tuple[Device | None, DisplayCard | None]
"""A device with its card; a card without a driver and software are alone."""
LIMIT = 16
"""Most devices that a worker reports."""


def join_devices(vulkan: Sequence[Found], opencl: Sequence[Found]) -> list[Found]:
    """Return each GPU once, with the Vulkan driver's device if both drivers know it.

    Vulkan is preferred because more is tested with it. An OpenCL device whose card is unknown is
    taken for a Vulkan device of the same vendor.

    Args:
        vulkan: Vulkan devices, and cards without one.
        opencl: OpenCL devices.
    """
    devices = [pair for pair in vulkan if pair[0] is not None]
    cards = {card for _, card in devices if card is not None}
    vendors = {device.vendor_id for device, _ in devices if device and not device.is_software}
    for device, card in opencl:
        is_known = card in cards if card else device is not None and device.vendor_id in vendors
        if device is not None and (device.is_software or not is_known):
            devices.append((device, card))
    known = {card for _, card in devices}
    return [*devices, *(pair for pair in vulkan if pair[0] is None and pair[1] not in known)]


def choose_device(
    found: Sequence[Found], *, vulkan: Wanted, opencl: Wanted
) -> VulkanDevice | OpenclDevice | None:
    """Return the first device that jobs may use; None without one.

    Args:
        found: Devices and cards, from `join_devices`.
        vulkan: The setting REDKILN_VULKAN.
        opencl: The setting REDKILN_OPENCL.
    """
    for device, _ in found:
        wanted = opencl if isinstance(device, OpenclDevice) else vulkan
        if device is not None and (not device.is_software or wanted == "software"):
            return device
    return None


def name_device(chosen: Device | None) -> str | None:
    """Return tinygrad's name of what jobs open."""
    if isinstance(chosen, OpenclDevice):
        return f"CL:{chosen.place}"
    return None if chosen is None else VULKAN


def describe_devices(
    found: Sequence[Found], chosen: Device | None, *, has_packages: bool, has_torch_gpu: bool
) -> list[EngineDevice]:
    """Return the devices of this host, each with the reason if it is not used.

    Args:
        found: Devices and cards, from `join_devices`.
        chosen: The device that jobs may use. All GPUs of Vulkan go with it, because Dawn chooses
            one of them.
        has_packages: Whether tinygrad and dawn-python are installed.
        has_torch_gpu: Whether torch trains on GPUs of this host.
    """
    common = None
    if has_torch_gpu:
        common = (
            "this worker trains with torch; start a second worker without ROCm for this GPU "
            "(compose.vulkan.yaml)"
        )
    elif not has_packages:
        common = "tinygrad and dawn-python are missing: pip install -e '.[worker,vulkan]'"
    return [
        EngineDevice(
            engine=ENGINE,
            name=_name(device, card),
            driver=None if device is None else device.driver,
            pci_address=None if card is None else card.pci_address,
            excluded=common or _exclude(device, chosen),
        )
        for device, card in found[:LIMIT]
    ]


def offer_engines(packages: Sequence[str] | None, devices: Sequence[EngineDevice]) -> list[str]:
    """Return what the worker has for jobs: its optional packages, with tinygrad if it can run."""
    others = [name for name in packages or () if name != ENGINE]
    is_usable = any(device.excluded is None for device in devices)
    return [*others, ENGINE] if is_usable else others


def list_lease_keys(found: Sequence[Found], devices: Sequence[EngineDevice]) -> list[str]:
    """Return a key for each GPU that a job leases: each used one that is not software.

    Args:
        found: Devices and cards, from `join_devices`.
        devices: Their descriptions, from `describe_devices`.
    """
    return [
        shown.pci_address or re.sub(r"[^\w.-]+", "-", f"vulkan-{shown.name}")
        for (device, _), shown in zip(found, devices, strict=False)
        if shown.excluded is None and device is not None and not device.is_software
    ]


def _exclude(device: Device | None, chosen: Device | None) -> str | None:
    if device is None:
        return NO_DRIVER
    is_opencl = isinstance(device, OpenclDevice)
    name, setting = ("OpenCL", "REDKILN_OPENCL") if is_opencl else ("Vulkan", "REDKILN_VULKAN")
    if device == chosen:
        return None
    if device.is_software and (chosen is None or not chosen.is_software):
        return (
            f"software {name} runs on the CPU; it is for tests, with {setting}=software on a host "
            "without a GPU"
        )
    if isinstance(chosen, OpenclDevice):
        return "jobs use the first OpenCL device of a worker, which is another one"
    if is_opencl:
        return "jobs use this worker's Vulkan device; to use OpenCL, set REDKILN_VULKAN=off"
    return None


def _name(device: Device | None, card: DisplayCard | None) -> str:
    if device is not None:
        return device.name
    assert card is not None
    return f"graphics card {card.vendor_id or 0:04x}:{card.device_id or 0:04x}"
