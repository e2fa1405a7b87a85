"""Devices that train with another engine than torch, and whether this worker offers them."""

from collections.abc import Sequence

from redkiln.views.worker import EngineDevice
from worker.agent.gpus.engine_places import Device, EnginePlace, Found
from worker.hardware.facts.opencl import OpenclDevice
from worker.hardware.facts.vulkan import NO_DRIVER, DisplayCard

ENGINE = "tinygrad"
LIMIT = 16
"""Most devices that a worker reports."""


def join_devices(vulkan: Sequence[Found], opencl: Sequence[Found]) -> list[Found]:
    """Return each GPU once, with the Vulkan driver's device if both drivers know it.

    Vulkan is preferred because more is tested with it. An OpenCL device whose card is unknown is
    taken for a device of the same vendor that Vulkan or another OpenCL driver lists.

    Args:
        vulkan: Vulkan devices, and cards without one.
        opencl: OpenCL devices.
    """
    devices = [pair for pair in vulkan if pair[0] is not None]
    for device, card in opencl:
        if isinstance(device, OpenclDevice) and not any(
            _is_same(device, card, other) for other in devices
        ):
            devices.append((device, card))
    known = {card for _, card in devices}
    return [*devices, *(pair for pair in vulkan if pair[0] is None and pair[1] not in known)]


def find_obstacle(*, has_packages: bool, has_torch_gpu: bool) -> str | None:
    """Return why no device of this host is used; None if devices can be.

    Args:
        has_packages: Whether tinygrad and dawn-python are installed.
        has_torch_gpu: Whether torch trains on GPUs of this host.
    """
    if has_torch_gpu:
        return (
            "this worker trains with torch; start a second worker without ROCm for this GPU "
            "(compose.vulkan.yaml)"
        )
    if not has_packages:
        return "tinygrad and dawn-python are missing: pip install -e '.[worker,vulkan]'"
    return None


def describe_devices(
    found: Sequence[Found],
    places: Sequence[EnginePlace],
    *,
    num_slots: int,
    obstacle: str | None = None,
) -> list[EngineDevice]:
    """Return the devices of this host, each with its slots or the reason if it is not used.

    Args:
        found: Devices and cards, from `join_devices`.
        places: Devices that jobs may open, from `plan_places`. Each slot uses one of them.
        num_slots: Number of slots of this worker.
        obstacle: Why none is used, from `find_obstacle`.
    """
    used = places[:num_slots]
    return [
        _describe(number, pair, used, num_slots=num_slots)
        if any(number == place.members[0] for place in used)
        else _exclude(pair, obstacle or _explain(number, found, places))
        for number, pair in enumerate(found[:LIMIT])
    ]


def offer_engines(packages: Sequence[str] | None, devices: Sequence[EngineDevice]) -> list[str]:
    """Return what the worker has for jobs: its optional packages, with tinygrad if it can run."""
    others = [name for name in packages or () if name != ENGINE]
    is_usable = any(device.excluded is None for device in devices)
    return [*others, ENGINE] if is_usable else others


def _is_same(device: OpenclDevice, card: DisplayCard | None, other: Found) -> bool:
    """Return whether a device of OpenCL is another's GPU."""
    known, its_card = other
    if known is None or device.is_software or known.is_software:
        return False
    if card is not None and its_card is not None:
        return card == its_card
    is_one_driver = isinstance(known, OpenclDevice) and known.platform == device.platform
    return device.vendor_id == known.vendor_id and not is_one_driver


def _describe(
    number: int, pair: Found, used: Sequence[EnginePlace], *, num_slots: int
) -> EngineDevice:
    index = next(index for index, place in enumerate(used) if number == place.members[0])
    slots = [slot + 1 for slot in range(index, num_slots, len(used))]
    return _view(pair).model_copy(update={"device": used[index].device, "slots": slots})


def _exclude(pair: Found, reason: str) -> EngineDevice:
    return _view(pair).model_copy(update={"excluded": reason})


def _view(pair: Found) -> EngineDevice:
    device, card = pair
    return EngineDevice(
        engine=ENGINE,
        name=_name(device, card),
        driver=None if device is None else device.driver,
        pci_address=None if card is None else card.pci_address,
        is_software=device is not None and device.is_software,
    )


def _explain(number: int, found: Sequence[Found], places: Sequence[EnginePlace]) -> str:
    """Return why no job opens a device."""
    device, _ = found[number]
    if device is None:
        return NO_DRIVER
    is_opencl = isinstance(device, OpenclDevice)
    name, setting = ("OpenCL", "REDKILN_OPENCL") if is_opencl else ("Vulkan", "REDKILN_VULKAN")
    opened = next((place.members[0] for place in places if number in place.members), None)
    if opened is not None and opened != number:
        first = _view(found[opened]).name
        return (
            f"idle, or used instead of {first}: Dawn, the WebGPU library, opens one of them; to "
            "use each, install an OpenCL driver and set REDKILN_VULKAN=off"
        )
    if opened is not None:
        return "idle: the worker has a slot for fewer GPUs; raise REDKILN_SLOTS or remove it"
    if device.is_software:
        return (
            f"software {name} runs on the CPU; it is for tests, with {setting}=software on a host "
            "without a GPU"
        )
    return (
        "idle: Dawn, the WebGPU library, opens another Vulkan GPU instead; to use both, install "
        "an OpenCL driver and set REDKILN_VULKAN=off"
    )


def _name(device: Device | None, card: DisplayCard | None) -> str:
    if device is not None:
        return device.name
    assert card is not None
    return f"graphics card {card.vendor_id or 0:04x}:{card.device_id or 0:04x}"
