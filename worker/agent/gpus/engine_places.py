"""Which device each slot's jobs open with another engine than torch, and what they lease for it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from worker.hardware.facts.opencl import OpenclDevice
from worker.hardware.facts.vulkan import DisplayCard, VulkanDevice

VULKAN = "WEBGPU"
"""tinygrad's name of the device that Dawn, the WebGPU library, opens through Vulkan."""
Wanted = Literal["auto", "software", "off"]
Device = VulkanDevice | OpenclDevice
Found = tuple[Device | None, DisplayCard | None]
"""A device with its card; a card without a driver and software are alone."""
Opens = Callable[[str], bool]
"""Whether a new process opens the device of this name."""


@dataclass(frozen=True)
class EnginePlace:
    """What one job opens at a time.

    Attributes:
        device: Its name for `worker.engines.tinygrad_device`.
        members: Places of its devices among those found; several if it is not known which one
            Dawn opens.
        keys: Leases that a job takes; none for software, which jobs share.
    """

    device: str
    members: tuple[int, ...]
    keys: tuple[str, ...] = ()


def plan_places(
    found: Sequence[Found], *, vulkan: Wanted, opencl: Wanted, opens: Opens
) -> list[EnginePlace]:
    """List the devices that jobs may open: all GPUs or, without one, software if it is wanted.

    Args:
        found: Devices and cards, from `join_devices`.
        vulkan: The setting REDKILN_VULKAN.
        opencl: The setting REDKILN_OPENCL.
        opens: Tries a Vulkan device; asked only if there are several.
    """
    keys = name_keys(found)
    chosen = _choose(found, vulkan=vulkan, opencl=opencl)
    places = [
        *_plan_vulkan(chosen, opens),
        *(
            EnginePlace(f"CL:{device.place}", (number,))
            for number, device in chosen
            if isinstance(device, OpenclDevice)
        ),
    ]
    if any(device.is_software for _, device in chosen):
        return places
    return [
        EnginePlace(place.device, place.members, tuple(keys[number] for number in place.members))
        for place in places
    ]


def place_of_slot(places: Sequence[EnginePlace], slot: int) -> EnginePlace | None:
    """Return what a slot's jobs open; slots share devices if there are fewer devices."""
    return places[slot % len(places)] if places else None


def count_gpus(places: Sequence[EnginePlace]) -> int:
    """Return how many jobs can train at once, each on its own GPU."""
    return sum(bool(place.keys) for place in places)


def name_keys(found: Sequence[Found]) -> list[str]:
    """Return a lease key for each device: its address, or its name with a number if it is shared.

    All workers of a host find the same devices in the same order, so they use the same keys.
    """
    keys: list[str] = []
    for device, card in found:
        interface = "opencl" if isinstance(device, OpenclDevice) else "vulkan"
        name = re.sub(r"[^\w.-]+", "-", f"{interface}-{device.name if device else 'none'}").strip(
            "-"
        )
        key, number = card.pci_address if card else name, 1
        while key in keys:
            number += 1
            key = f"{name}-{number}"
        keys.append(key)
    return keys


def _choose(
    found: Sequence[Found], *, vulkan: Wanted, opencl: Wanted
) -> list[tuple[int, VulkanDevice | OpenclDevice]]:
    devices = [(number, device) for number, (device, _) in enumerate(found) if device is not None]
    if gpus := [(number, device) for number, device in devices if not device.is_software]:
        return gpus
    kinds = ((VulkanDevice, vulkan), (OpenclDevice, opencl))
    of_kinds = (
        [(number, device) for number, device in devices if isinstance(device, kind)]
        for kind, wanted in kinds
        if wanted == "software"
    )
    return next(filter(None, of_kinds), [])


def _plan_vulkan(chosen: Sequence[tuple[int, Device]], opens: Opens) -> list[EnginePlace]:
    """Return a place for each kind of Vulkan device that Dawn can be made to open.

    Dawn opens the device that it prefers. Mesa's layer can put another first, by its vendor and
    device numbers, so devices with the same numbers are one place.
    """
    kinds: dict[str, list[int]] = {}
    for number, device in chosen:
        if isinstance(device, VulkanDevice):
            name = f"{VULKAN}:{device.vendor_id or 0:x}:{device.device_id or 0:x}"
            kinds.setdefault(name, []).append(number)
    if len(kinds) > 1:
        opened = [EnginePlace(name, tuple(own)) for name, own in kinds.items() if opens(name)]
        if opened:
            return opened
    every = tuple(number for own in kinds.values() for number in own)
    return [EnginePlace(VULKAN, every)] if every else []
