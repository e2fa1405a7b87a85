from worker.hardware.doctor.table.pcie import PcieLink, read_link


def make_device(folder, width, *, most="16", speed="16.0 GT/s PCIe"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "current_link_width").write_text(f"{width}\n")
    (folder / "max_link_width").write_text(f"{most}\n")
    (folder / "current_link_speed").write_text(f"{speed}\n")


def test_the_link_of_the_cards_own_switch_counts(tmp_path):
    switch = tmp_path / "pci0000:00/0000:00:01.1/0000:01:00.0"
    make_device(switch.parent, 4, most="16")
    make_device(switch, 4, most="16", speed="8.0 GT/s PCIe")
    make_device(switch / "0000:02:00.0", 16)
    make_device(switch / "0000:02:00.0/0000:03:00.0", 16)
    (tmp_path / "device").symlink_to(switch / "0000:02:00.0/0000:03:00.0")
    assert read_link(tmp_path / "device") == PcieLink(4, max_width=16, speed="8.0 GT/s PCIe")


def test_a_damaged_or_missing_file_gives_no_link(tmp_path):
    assert read_link(tmp_path) is None
    make_device(tmp_path, "Unknown")
    assert read_link(tmp_path) is None
    make_device(tmp_path, "255")  # all ones: the device is gone
    assert read_link(tmp_path) is None
