"""GPUs with a Vulkan driver, and graphics cards of any vendor, with or without one.

`vulkaninfo --summary` names the devices that drivers can open, sysfs the cards that are there.
"""

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from worker.hardware.facts.sysfs import read_hexadecimal

SECONDS = 60.0
"""Time limit of `vulkaninfo`, which loads every driver."""
PCI_DIR = Path("/sys/bus/pci/devices")
DISPLAY_CLASS = 0x03
SOFTWARE = "CPU"
NO_DRIVER = (
    "no Vulkan or OpenCL driver lists it; install Mesa's for Vulkan (Debian: mesa-vulkan-drivers)"
)

_FIELD = re.compile(r"^\s*(\w+)\s*=\s*(.+?)\s*$")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True)
class VulkanDevice:
    """A device as its Vulkan driver describes it.

    Attributes:
        kind: The driver's word after `PHYSICAL_DEVICE_TYPE_`, such as `DISCRETE_GPU` or `CPU`.
    """

    name: str
    kind: str
    vendor_id: int | None
    device_id: int | None
    driver: str

    @property
    def is_software(self) -> bool:
        """Whether it computes on the CPU."""
        return self.kind == SOFTWARE


@dataclass(frozen=True)
class DisplayCard:
    """A graphics card of any vendor in `/sys/bus/pci/devices`."""

    pci_address: str
    vendor_id: int | None
    device_id: int | None


def ask_vulkan() -> str:
    """Return what `vulkaninfo --summary` prints; empty without the program or a driver."""
    program = shutil.which("vulkaninfo")
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, "--summary"], capture_output=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def parse_summary(text: str) -> list[VulkanDevice]:
    """Return the devices in the output of `vulkaninfo --summary`."""
    found: list[dict[str, str]] = []
    for line in text.splitlines():
        if re.fullmatch(r"GPU\d+:\s*", line):
            found.append({})
        elif found and (match := _FIELD.match(line)):
            found[-1][match[1]] = match[2]
    return [_describe(fields) for fields in found if "deviceName" in fields]


def list_cards(pci_dir: Path = PCI_DIR) -> list[DisplayCard]:
    """Return the display controllers of this host, by address."""
    folders = sorted(pci_dir.iterdir()) if pci_dir.is_dir() else []
    return [
        DisplayCard(
            folder.name,
            read_hexadecimal(str(folder / "vendor")),
            read_hexadecimal(str(folder / "device")),
        )
        for folder in folders
        if _ADDRESS.fullmatch(folder.name)
        and (read_hexadecimal(str(folder / "class")) or 0) >> 16 == DISPLAY_CLASS
    ]


def find_vulkan(
    *, ask: Callable[[], str] = ask_vulkan, pci_dir: Path = PCI_DIR
) -> list[tuple[VulkanDevice | None, DisplayCard | None]]:
    """Pair each Vulkan device with its card; a card without a driver and software have no pair."""
    cards = list_cards(pci_dir)
    pairs: list[tuple[VulkanDevice | None, DisplayCard | None]] = []
    for device in parse_summary(ask()):
        own = (device.vendor_id, device.device_id)
        card = next((one for one in cards if (one.vendor_id, one.device_id) == own), None)
        if card is not None:
            cards.remove(card)
        pairs.append((device, card))
    return [*pairs, *((None, card) for card in cards)]


def _describe(fields: Mapping[str, str]) -> VulkanDevice:
    driver = " ".join(fields[name] for name in ("driverName", "driverInfo") if name in fields)
    return VulkanDevice(
        name=fields["deviceName"],
        kind=fields.get("deviceType", "").removeprefix("PHYSICAL_DEVICE_TYPE_"),
        vendor_id=parse_number(fields.get("vendorID")),
        device_id=parse_number(fields.get("deviceID")),
        driver=driver,
    )


def parse_number(text: str | None) -> int | None:
    """Return a number such as `0x1002`; None if there is none."""
    try:
        return None if text is None else int(text, 0)
    except ValueError:
        return None
