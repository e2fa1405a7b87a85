"""OpenCL devices in the output of `clinfo --raw`."""

import shutil

import pytest

from worker.hardware.facts.opencl import ask_opencl, find_opencl, parse_clinfo

RAW = """\
#PLATFORMS                                        2
  CL_PLATFORM_NAME                                Intel(R) OpenCL Graphics
[INTEL/*]    CL_PLATFORM_NAME                                Intel(R) OpenCL Graphics
[INTEL/*]  #DEVICES                                          1
[INTEL/0]    CL_DEVICE_NAME                                  Intel(R) Arc(TM) A770 Graphics
[INTEL/0]    CL_DEVICE_VENDOR_ID                             0x8086
[INTEL/0]    CL_DRIVER_VERSION                               24.26.30049
[INTEL/0]    CL_DEVICE_TYPE                                  CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT
[INTEL/0]    CL_DEVICE_PCI_BUS_INFO_KHR                      PCI-E, 0000:04:00.0
[AMD/0]    CL_DEVICE_NAME                                  gfx803
[AMD/0]    CL_DEVICE_VENDOR_ID                             0x1002
[AMD/0]    CL_DRIVER_VERSION                               3180.7 (PAL,HSAIL)
[AMD/0]    CL_DEVICE_TYPE                                  CL_DEVICE_TYPE_GPU
[AMD/0]    CL_DEVICE_BOARD_NAME_AMD                        Radeon RX 580 Series
[AMD/0]    CL_DEVICE_TOPOLOGY_AMD                          PCI-E, 03:00.0
[AMD/1]    CL_DEVICE_NAME                                  pthread-skylake
[AMD/1]    CL_DEVICE_TYPE                                  CL_DEVICE_TYPE_CPU
"""  # noqa: E501  # as clinfo prints it


def add_card(root, address, vendor):
    folder = root / address
    folder.mkdir()
    for name, value in (("vendor", vendor), ("device", "0x1"), ("class", "0x030000")):
        (folder / name).write_text(f"{value}\n")


def test_devices_of_all_drivers_are_read_in_their_order():
    arc, radeon, software = parse_clinfo(RAW)
    assert (arc.place, arc.name, arc.pci_address) == (
        0, "Intel(R) Arc(TM) A770 Graphics", "0000:04:00.0"
    )  # fmt: skip
    assert (radeon.place, radeon.name, radeon.pci_address) == (
        1, "Radeon RX 580 Series", "0000:03:00.0"
    )  # fmt: skip
    assert radeon.driver == "OpenCL 3180.7 (PAL,HSAIL)"
    assert [one.is_software for one in (arc, radeon, software)] == [False, False, True]


def test_devices_are_paired_with_cards_by_address_or_as_the_only_one_of_a_vendor(tmp_path):
    add_card(tmp_path, "0000:03:00.0", "0x1002")
    add_card(tmp_path, "0000:04:00.0", "0x8086")

    def find(text):
        found = find_opencl(ask=lambda: text, pci_dir=tmp_path)
        return [card and card.pci_address for _, card in found]

    assert find(RAW) == ["0000:04:00.0", "0000:03:00.0", None]
    unknown = RAW.replace("PCI-E", "unknown")
    assert find(unknown) == ["0000:04:00.0", "0000:03:00.0", None]
    add_card(tmp_path, "0000:05:00.0", "0x1002")
    assert find(unknown) == ["0000:04:00.0", None, None], "one of two cards"


def test_an_output_without_devices_has_none():
    assert parse_clinfo("#PLATFORMS   0\nERROR: no driver\n[X/*] CL_PLATFORM_NAME x") == []


@pytest.mark.skipif(shutil.which("clinfo") is None, reason="needs clinfo")
def test_what_clinfo_prints_here_is_understood():
    text = ask_opencl()
    assert len(parse_clinfo(text)) == text.count("CL_DEVICE_NAME ")
