"""The table of products by PCI device id, with facts that the driver does not report.

The facts are in `devices.toml`. Products that share one id are distinguished by their PCI revision
or by their compute units; if that is ambiguous, the product has no name and no bandwidth.
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

TABLE_PATH = Path(__file__).parent / "devices.toml"


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Variant(_Row):
    """One of several products that share a device id.

    Attributes:
        revisions: PCI revisions, in hexadecimal.
        cu_count: Number of compute units; None if it does not distinguish this product.
        bandwidth_gb_per_second: Memory bandwidth in 10^9 bytes; None if it differs or is unknown.
    """

    name: str
    revisions: tuple[str, ...] = ()
    cu_count: int | None = None
    bandwidth_gb_per_second: float | None = None


class Device(_Row):
    """A PCI device id of AMD.

    Attributes:
        id: Four hexadecimal digits.
        name: Name of the product; None if several share the id.
        gfx: LLVM target; None if one id has several.
        is_apu: Whether it shares the host's memory.
        bandwidth_gb_per_second: Memory bandwidth in 10^9 bytes; None if it differs or is unknown.
    """

    id: str
    gfx: str | None = None
    name: str | None = None
    is_apu: bool = False
    bandwidth_gb_per_second: float | None = None
    variants: tuple[Variant, ...] = ()


class Product(_Row):
    """The facts about one GPU that its ids determine."""

    gfx: str | None
    is_apu: bool
    name: str | None = None
    bandwidth_bytes_per_second: int | None = None


def find_product(
    device_id: int, *, revision: int | None = None, cu_count: int | None = None
) -> Product | None:
    """Find the product of a PCI device id; None if the table does not contain it."""
    device = load_devices().get(device_id)
    if device is None:
        return None
    variant = _find_variant(device, revision=revision, cu_count=cu_count)
    bandwidth = (variant or device).bandwidth_gb_per_second
    return Product(
        gfx=device.gfx,
        is_apu=device.is_apu,
        name=variant.name if variant else device.name,
        bandwidth_bytes_per_second=round(bandwidth * 1e9) if bandwidth else None,
    )


@cache
def load_devices() -> Mapping[int, Device]:
    """Load all rows by device id.

    Raises:
        pydantic.ValidationError: The table does not have this form.
    """
    rows = tomllib.loads(TABLE_PATH.read_text())["device"]
    return {int(row["id"], 16): Device.model_validate(row) for row in rows}


def _find_variant(device: Device, *, revision: int | None, cu_count: int | None) -> Variant | None:
    """Find the only matching variant: by revision if known and listed, otherwise by its units."""
    listed = [
        v for v in device.variants if revision is not None and f"{revision:02x}" in v.revisions
    ]
    fitting = listed or [v for v in device.variants if cu_count and v.cu_count == cu_count]
    return fitting[0] if len(fitting) == 1 else None
