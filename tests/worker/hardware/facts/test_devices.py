import pytest

from worker.hardware.facts.devices import find_product, load_devices
from worker.hardware.facts.targets import find_target


@pytest.mark.parametrize("device", load_devices().values(), ids=lambda device: device.id)
def test_a_row_is_consistent(device):
    target = find_target(device.gfx) if device.gfx else None
    assert target or device.gfx is None
    if target and target.is_apu is not None:
        assert device.is_apu == target.is_apu
    revisions = [revision for variant in device.variants for revision in variant.revisions]
    assert len(revisions) == len(set(revisions))
    units = [variant.cu_count for variant in device.variants if variant.cu_count]
    assert len(units) == len(set(units))
    for row in (device, *device.variants):
        assert row.bandwidth_gb_per_second is None or 100 < row.bandwidth_gb_per_second < 10_000


@pytest.mark.parametrize(
    ("device_id", "known", "name", "bandwidth"),
    [
        (0x744C, {"revision": 0xC8}, "Radeon RX 7900 XTX", 960_000_000_000),
        (0x744C, {"revision": 0xCC}, "Radeon RX 7900 XT", 800_000_000_000),
        (0x744C, {"cu_count": 96}, "Radeon RX 7900 XTX", 960_000_000_000),
        (0x744C, {"revision": 0x99, "cu_count": 84}, "Radeon RX 7900 XT", 800_000_000_000),
        (0x744C, {"cu_count": 12}, None, None),
        (0x744C, {}, None, None),
        (0x73BF, {}, None, 512_000_000_000),
        (0x740F, {}, "Instinct MI210", 1_638_400_000_000),
        (0x15BF, {"cu_count": 12}, "Radeon 780M", None),
    ],
)
def test_products_with_one_id_are_distinguished_or_not_named(device_id, known, name, bandwidth):
    product = find_product(device_id, **known)
    assert (product.name, product.bandwidth_bytes_per_second) == (name, bandwidth)


def test_an_id_missing_from_the_table_has_no_product():
    assert find_product(0xFFFF) is None
