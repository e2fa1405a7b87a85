"""Devices that train with another engine than torch, and whether this worker offers them."""

import re
from collections.abc import Sequence
from typing import Literal

from redkiln.views.worker import EngineDevice
from worker.hardware.facts.vulkan import NO_DRIVER, DisplayCard, VulkanDevice

ENGINE = "tinygrad"
Wanted = Literal["auto", "software", "off"]
LIMIT = 16
"""Most devices that a worker reports."""


def describe_devices(
    found: Sequence[tuple[VulkanDevice | None, DisplayCard | None]],
    *,
    wanted: Wanted,
    has_packages: bool,
    has_torch_gpu: bool,
) -> list[EngineDevice]:
    """Return the devices of this host, each with the reason if it is not used.

    Args:
        found: Vulkan devices and cards, from `find_vulkan`.
        wanted: The setting REDKILN_VULKAN.
        has_packages: Whether tinygrad and dawn-python are installed.
        has_torch_gpu: Whether torch trains on GPUs of this host.
    """
    if wanted == "off":
        return []
    common = None
    if has_torch_gpu:
        common = (
            "this worker trains with torch; start a second worker without ROCm for this GPU "
            "(compose.vulkan.yaml)"
        )
    elif not has_packages:
        common = "tinygrad and dawn-python are missing: pip install -e '.[worker,vulkan]'"
    return [_describe(device, card, wanted=wanted, common=common) for device, card in found[:LIMIT]]


def offer_engines(packages: Sequence[str] | None, devices: Sequence[EngineDevice]) -> list[str]:
    """Return what the worker has for jobs: its optional packages, with tinygrad if it can run."""
    others = [name for name in packages or () if name != ENGINE]
    is_usable = any(device.excluded is None for device in devices)
    return [*others, ENGINE] if is_usable else others


def list_lease_keys(
    found: Sequence[tuple[VulkanDevice | None, DisplayCard | None]],
    devices: Sequence[EngineDevice],
) -> list[str]:
    """Return a key for each GPU that a job leases: each used one that is not software.

    Args:
        found: Vulkan devices and cards, from `find_vulkan`.
        devices: Their descriptions, from `describe_devices`.
    """
    return [
        shown.pci_address or re.sub(r"[^\w.-]+", "-", f"vulkan-{shown.name}")
        for (device, _), shown in zip(found, devices, strict=False)
        if shown.excluded is None and device is not None and not device.is_software
    ]


def _describe(
    device: VulkanDevice | None, card: DisplayCard | None, *, wanted: Wanted, common: str | None
) -> EngineDevice:
    excluded = common
    if device is None:
        excluded = excluded or NO_DRIVER
    elif device.is_software and wanted != "software":
        software = "software Vulkan runs on the CPU; for tests, set REDKILN_VULKAN=software"
        excluded = excluded or software
    return EngineDevice(
        engine=ENGINE,
        name=_name(device, card),
        driver=None if device is None else device.driver,
        pci_address=None if card is None else card.pci_address,
        excluded=excluded,
    )


def _name(device: VulkanDevice | None, card: DisplayCard | None) -> str:
    if device is not None:
        return device.name
    assert card is not None
    return f"graphics card {card.vendor_id or 0:04x}:{card.device_id or 0:04x}"
