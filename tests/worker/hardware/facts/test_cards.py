from pathlib import Path

import pytest

from tests.worker.hardware.trees import RAPHAEL, RX_7900_XTX, put, write_machine
from worker.hardware.facts.cards import find_device_dir, read_cards


@pytest.fixture
def drm_dir(tmp_path):
    return write_machine(tmp_path, [RX_7900_XTX, RAPHAEL]).drm_dir


def test_a_card_is_read_from_its_files(drm_dir):
    first, second = read_cards(drm_dir)
    assert (first.number, first.pci_address, first.render_minor) == (0, "0000:03:00.0", 128)
    assert (first.vendor_id, first.device_id, first.revision) == (0x1002, 0x744C, 0xC8)
    assert (first.unique_id, second.unique_id) == (RX_7900_XTX.unique_id, None)
    assert first.device_dir == drm_dir / "card0" / "device"


def test_a_screen_is_detected_at_its_cards_connectors(drm_dir):
    assert [card.drives_display for card in read_cards(drm_dir)] == [False, True]
    for number in (0, 1):
        (drm_dir / f"card{number}-DP-1" / "status").unlink()
    assert [card.drives_display for card in read_cards(drm_dir)] == [None, None]


def test_cards_of_other_vendors_are_ignored(drm_dir):
    put(drm_dir / "card5/device/uevent", "DRIVER=i915\nPCI_ID=8086:9A49\n")
    put(drm_dir / "card6/device/uevent", "DRIVER=amdgpu_xcp_drv\nMODALIAS=platform:amdgpu_xcp\n")
    put(drm_dir / "card7/device/vendor", "0x10de\n")
    (drm_dir / "card8").mkdir()
    assert [card.number for card in read_cards(drm_dir)] == [0, 1]


def test_a_single_card_can_be_given_by_its_folder(drm_dir):
    (card,) = read_cards(drm_dir / "card1")
    assert (card.number, card.pci_address) == (1, "0000:10:00.0")


def test_without_the_event_file_ids_come_from_their_own_files(drm_dir):
    (drm_dir / "card0/device/uevent").unlink()
    card = read_cards(drm_dir)[0]
    assert (card.vendor_id, card.device_id, card.pci_address) == (0x1002, 0x744C, None)


def test_without_a_folder_there_is_no_card(tmp_path):
    assert read_cards(tmp_path / "missing") == []


def test_sensors_are_found_by_the_number_of_the_card():
    assert find_device_dir(3, drm_dir=Path("/x")) == Path("/x/card3/device")
    assert find_device_dir(None) is None
