from worker.hardware.facts.kernel_log import MAX_LINES, KernelLog, read_kernel_log, to_lines

RECORDS = (
    "6,1201,8812345,-;amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout\n"
    " SUBSYSTEM=pci\n"
    " DEVICE=+pci:0000:03:00.0\n"
    "6,1202,8812399,-;usb 1-2: new high-speed USB device\n"
    "4,1203,8812400,-,caller=T88;[drm] GPU recovery disabled.\n"
)


def test_records_of_kmsg_become_lines():
    assert to_lines(RECORDS) == [
        "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout",
        "usb 1-2: new high-speed USB device",
        "[drm] GPU recovery disabled.",
    ]


def test_lines_of_dmesg_are_unchanged():
    assert to_lines("[   12.5] amdgpu: a\n[   12.6] amdgpu: b\n") == [
        "[   12.5] amdgpu: a",
        "[   12.6] amdgpu: b",
    ]


def test_only_lines_about_gpus_are_read(tmp_path):
    path = tmp_path / "kmsg"
    path.write_text(RECORDS)
    assert read_kernel_log(path) == (
        "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout",
        "[drm] GPU recovery disabled.",
    )


def test_messages_from_before_it_was_opened_are_not_read(tmp_path):
    path = tmp_path / "dmesg"
    path.write_text("amdgpu: old\n")
    log = KernelLog(path)
    with path.open("a") as file:
        file.write("amdgpu: new\n")
    assert log.read() == ["amdgpu: new"]
    assert log.read() == []
    log.close()
    assert log.read() == []


def test_the_latest_lines_of_a_long_log_are_kept(tmp_path):
    path = tmp_path / "dmesg"
    path.write_text("".join(f"amdgpu: {number} {'x' * 60}\n" for number in range(MAX_LINES + 10)))
    lines = read_kernel_log(path)
    assert len(lines) == MAX_LINES
    assert lines[-1].startswith(f"amdgpu: {MAX_LINES + 9} ")


def test_an_unreadable_log_has_no_lines(tmp_path):
    assert read_kernel_log(tmp_path / "absent") is None
    log = KernelLog(tmp_path / "absent")
    assert not log.is_readable
    assert log.read() == []


def test_reading_this_machines_log_never_fails():
    lines = read_kernel_log()
    assert lines is None or all(isinstance(line, str) for line in lines)
