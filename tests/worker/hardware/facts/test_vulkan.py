"""Vulkan devices and graphics cards of any vendor."""

from worker.hardware.facts.vulkan import find_vulkan, list_cards, parse_summary

SUMMARY = """
Instance Layers: count = 1
Devices:
========
GPU0:
\tapiVersion         = 1.4.305
\tvendorID           = 0x1002
\tdeviceID           = 0x67df
\tdeviceType         = PHYSICAL_DEVICE_TYPE_DISCRETE_GPU
\tdeviceName         = AMD Radeon RX 580 Series (RADV POLARIS10)
\tdriverName         = radv
\tdriverInfo         = Mesa 25.2.0
GPU1:
\tvendorID           = 0x10005
\tdeviceID           = 0x0000
\tdeviceType         = PHYSICAL_DEVICE_TYPE_CPU
\tdeviceName         = llvmpipe (LLVM 15.0.6, 256 bits)
"""


def add_card(root, address, vendor, device, kind="0x030000"):
    folder = root / address
    folder.mkdir()
    for name, value in (("vendor", vendor), ("device", device), ("class", kind)):
        (folder / name).write_text(f"{value}\n")


def test_devices_are_read_from_the_summary():
    polaris, software = parse_summary(SUMMARY)
    assert polaris.name == "AMD Radeon RX 580 Series (RADV POLARIS10)"
    assert (polaris.vendor_id, polaris.device_id, polaris.driver) == (
        0x1002,
        0x67DF,
        "radv Mesa 25.2.0",
    )
    assert (polaris.is_software, software.is_software) == (False, True)


def test_a_damaged_summary_has_no_devices():
    assert parse_summary("GPU0:\n\tvendorID = x\nERROR: no driver") == []


def test_devices_are_paired_with_cards_and_a_card_without_a_driver_is_found(tmp_path):
    add_card(tmp_path, "0000:03:00.0", "0x1002", "0x67df")
    add_card(tmp_path, "0000:04:00.0", "0x8086", "0x56a0", kind="0x038000")
    add_card(tmp_path, "0000:05:00.0", "0x8086", "0x1533", kind="0x020000")
    found = find_vulkan(ask=lambda: SUMMARY, pci_dir=tmp_path)
    pairs = [(device and device.name[:10], card and card.pci_address) for device, card in found]
    assert pairs == [("AMD Radeon", "0000:03:00.0"), ("llvmpipe (", None), (None, "0000:04:00.0")]


def test_a_host_without_pci_has_no_cards(tmp_path):
    assert list_cards(tmp_path / "missing") == []
