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


def test_lines_of_dmesg_stay_as_they_are():
    assert to_lines("[   12.5] amdgpu: a\n[   12.6] amdgpu: b\n") == [
        "[   12.5] amdgpu: a",
        "[   12.6] amdgpu: b",
    ]


def test_only_what_concerns_gpus_is_read(tmp_path):
    path = tmp_path / "kmsg"
    path.write_text(RECORDS)
    assert read_kernel_log(path) == (
        "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout",
        "[drm] GPU recovery disabled.",
    )


def test_what_was_said_before_it_was_opened_is_not_read(tmp_path):
    path = tmp_path / "dmesg"
    path.write_text("amdgpu: old\n")
    log = KernelLog(path)
    with path.open("a") as file:
        file.write("amdgpu: new\n")
    assert log.read() == ["amdgpu: new"]
    assert log.read() == []
    log.close()
    assert log.read() == []


def test_of_a_long_log_the_newest_lines_are_kept(tmp_path):
    path = tmp_path / "dmesg"
    path.write_text("".join(f"amdgpu: {number} {'x' * 60}\n" for number in range(MAX_LINES + 10)))
    lines = read_kernel_log(path)
    assert len(lines) == MAX_LINES
    assert lines[-1].startswith(f"amdgpu: {MAX_LINES + 9} ")


def test_a_log_that_may_not_be_read_is_nothing(tmp_path):
    assert read_kernel_log(tmp_path / "absent") is None
    log = KernelLog(tmp_path / "absent")
    assert not log.is_readable
    assert log.read() == []


def test_the_log_of_this_machine_is_read_or_closed_without_an_error():
    lines = read_kernel_log()
    assert lines is None or all(isinstance(line, str) for line in lines)
