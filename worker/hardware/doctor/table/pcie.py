"""The link between a GPU and its processor, from the files of the PCI devices on the way.

A card has its own switch: between the switch and the GPU there are always sixteen lanes, and
only the switch's own link shows what the slot gives. So the narrowest link on the way counts.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from worker.hardware.facts.sysfs import read_text

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_SPEED = re.compile(r"([0-9.]+) GT/s")


@dataclass(frozen=True)
class PcieLink:
    """One link: its lanes now and at most, and its rate now as the kernel prints it."""

    width: int
    max_width: int | None = None
    speed: str | None = None


def read_link(device_dir: Path) -> PcieLink | None:
    """Return the narrowest link between a GPU and its processor; None if it cannot be read.

    Args:
        device_dir: The GPU's folder; above it are the folders of the devices on the way.
    """
    links = [link for folder in _climb(device_dir) if (link := _read_link(folder)) is not None]
    return min(links, key=lambda link: (link.width, _rate(link)), default=None)


def _climb(device_dir: Path) -> Iterator[Path]:
    folder = device_dir.resolve()
    yield folder
    while _ADDRESS.fullmatch(folder.parent.name):
        folder = folder.parent
        yield folder


def _read_link(folder: Path) -> PcieLink | None:
    width = _number(read_text(f"{folder}/current_link_width"))
    if not width:
        return None
    return PcieLink(
        width,
        max_width=_number(read_text(f"{folder}/max_link_width")),
        speed=read_text(f"{folder}/current_link_speed"),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and int(text) <= 32 else None


def _rate(link: PcieLink) -> float:
    found = _SPEED.match(link.speed or "")
    return float(found[1]) if found else 0.0
