"""The graphics cards of the amdgpu driver, identified by their properties, never by number."""

import re
from dataclasses import dataclass
from pathlib import Path

from worker.hardware.facts.sysfs import (
    Read,
    list_numbers,
    parse_hexadecimal,
    read_file,
    read_hexadecimal,
    read_text,
)

DRM_DIR = Path("/sys/class/drm")
AMD = 0x1002

_PCI_ADDRESS = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")


@dataclass(frozen=True)
class Card:
    """A card of `/sys/class/drm`.

    Attributes:
        number: Number in `card<number>`; it is unrelated to the order of GPUs.
        device_dir: Folder of its sensors.
        revision: PCI revision, which distinguishes products with the same device id.
        drives_display: Whether a connector has a screen; None without a connector.
    """

    number: int
    device_dir: Path
    pci_address: str | None = None
    vendor_id: int | None = None
    device_id: int | None = None
    revision: int | None = None
    unique_id: int | None = None
    render_minor: int | None = None
    drives_display: bool | None = None


def read_cards(drm_dir: Path, *, read: Read = read_file) -> list[Card]:
    """Read the AMD cards of a folder.

    Args:
        drm_dir: `/sys/class/drm`, a captured copy, or one of its `card<n>` folders.
        read: Function that reads a file.
    """
    cards = [_read_card(folder, number=number, read=read) for number, folder in _folders(drm_dir)]
    return [card for card in cards if card is not None]


def find_device_dir(card: int | None, *, drm_dir: Path = DRM_DIR) -> Path | None:
    """Return the folder of a card's sensors; None for a GPU whose card is unknown."""
    return None if card is None else drm_dir / f"card{card}" / "device"


def _folders(drm_dir: Path) -> list[tuple[int, Path]]:
    if match := re.fullmatch(r"card([0-9]{1,9})", drm_dir.name):
        return [(int(match[1]), drm_dir)]
    for root in (drm_dir, drm_dir / "drm"):
        if numbers := list_numbers(str(root), prefix="card"):
            return [(number, root / f"card{number}") for number in numbers]
    return []


def _read_card(folder: Path, *, number: int, read: Read) -> Card | None:
    device = folder / "device"
    event = _parse_event(read_text(f"{device}/uevent", read=read) or "")
    vendor, _, model = event.get("PCI_ID", "").partition(":")
    vendor_id = parse_hexadecimal(vendor) or read_hexadecimal(f"{device}/vendor", read=read)
    is_ours = event.get("DRIVER", "amdgpu") == "amdgpu"
    if not is_ours or vendor_id not in (AMD, None) or (vendor_id is None and not event):
        return None
    address = event.get("PCI_SLOT_NAME", "")
    return Card(
        number,
        device,
        pci_address=address.lower() if _PCI_ADDRESS.fullmatch(address) else None,
        vendor_id=vendor_id,
        device_id=parse_hexadecimal(model) or read_hexadecimal(f"{device}/device", read=read),
        revision=read_hexadecimal(f"{device}/revision", read=read),
        unique_id=read_hexadecimal(f"{device}/unique_id", read=read),
        render_minor=next(iter(list_numbers(f"{device}/drm", prefix="renderD")), None),
        drives_display=_drives_display(folder, read=read),
    )


def _parse_event(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _drives_display(folder: Path, *, read: Read) -> bool | None:
    """Check the connectors, which are next to the card and, in newer kernels, also inside it."""
    try:
        connectors = [p for p in folder.parent.iterdir() if p.name.startswith(f"{folder.name}-")]
    except OSError:
        return None
    states = [read_text(f"{connector}/status", read=read) for connector in connectors]
    return "connected" in states if any(states) else None
