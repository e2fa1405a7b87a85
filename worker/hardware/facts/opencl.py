"""GPUs with an OpenCL driver, as `clinfo --raw` describes them."""

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from worker.hardware.facts.vulkan import PCI_DIR, DisplayCard, list_cards, parse_number

SECONDS = 60.0
"""Time limit of `clinfo`, which loads every driver."""

_FIELD = re.compile(r"\[(\S+)/(\d+)\]\s+(\w+)\s+(.*?)\s*")
_BUS = re.compile(r"PCI-E, (?:([0-9a-f]{4}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
"""Without a domain in old releases of AMD's driver."""

BUS_FIELDS = ("CL_DEVICE_PCI_BUS_INFO_KHR", "CL_DEVICE_TOPOLOGY_AMD")


@dataclass(frozen=True)
class OpenclDevice:
    """A device as its OpenCL driver describes it.

    Attributes:
        place: Its place among the devices of all drivers, in the order of the OpenCL library.
        platform: The driver's short name in `clinfo`. A driver lists each of its devices once.
        name: The card's name; some drivers only report the chip's.
        kind: The driver's word after `CL_DEVICE_TYPE_`, such as `GPU` or `CPU`.
        pci_address: None if the driver does not report it.
    """

    place: int
    name: str
    kind: str
    vendor_id: int | None
    driver: str
    pci_address: str | None
    platform: str = ""

    @property
    def is_software(self) -> bool:
        """Whether it computes on the CPU."""
        return "GPU" not in self.kind


def ask_opencl() -> str:
    """Return what `clinfo --raw` prints; empty without the program or a driver."""
    program = shutil.which("clinfo")
    if program is None:
        return ""
    try:
        done = subprocess.run([program, "--raw"], capture_output=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def parse_clinfo(text: str) -> list[OpenclDevice]:
    """Return the devices in the output of `clinfo --raw`."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for line in text.splitlines():
        if match := _FIELD.fullmatch(line):
            platform, index, name, value = match.groups()
            found.setdefault((platform, index), {})[name] = value
    named = [(key, fields) for key, fields in found.items() if "CL_DEVICE_NAME" in fields]
    return [
        _describe(place, fields, platform=platform)
        for place, ((platform, _), fields) in enumerate(named)
    ]


def find_opencl(
    *, ask: Callable[[], str] = ask_opencl, pci_dir: Path = PCI_DIR
) -> list[tuple[OpenclDevice, DisplayCard | None]]:
    """Pair each OpenCL device with its card.

    A driver that does not report the address belongs to the only card of its vendor.
    """
    cards = list_cards(pci_dir)
    return [(device, _find_card(device, cards)) for device in parse_clinfo(ask())]


def _find_card(device: OpenclDevice, cards: Sequence[DisplayCard]) -> DisplayCard | None:
    if device.is_software:
        return None
    if device.pci_address is not None:
        return next((card for card in cards if card.pci_address == device.pci_address), None)
    alike = [card for card in cards if card.vendor_id == device.vendor_id]
    return alike[0] if len(alike) == 1 else None


def _describe(place: int, fields: Mapping[str, str], *, platform: str) -> OpenclDevice:
    buses = (
        fields.get(name, "") for name in ("CL_DEVICE_PCI_BUS_INFO_KHR", "CL_DEVICE_TOPOLOGY_AMD")
    )
    found = next((match for bus in buses if (match := _BUS.fullmatch(bus))), None)
    return OpenclDevice(
        place=place,
        name=fields.get("CL_DEVICE_BOARD_NAME_AMD") or fields["CL_DEVICE_NAME"],
        kind=fields.get("CL_DEVICE_TYPE", "").replace("CL_DEVICE_TYPE_", ""),
        vendor_id=parse_number(fields.get("CL_DEVICE_VENDOR_ID")),
        driver=f"OpenCL {fields.get('CL_DRIVER_VERSION', '')}".strip(),
        pci_address=f"{found[1] or '0000'}:{found[2]}" if found else None,
        platform=platform,
    )
