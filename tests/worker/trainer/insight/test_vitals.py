import pytest
import torch

from worker.trainer.insight.pace import Pace
from worker.trainer.insight.vitals import (
    WaitMeter,
    find_total_bytes,
    read_memory,
    read_process_memory,
    share_waited,
)


@pytest.mark.parametrize(
    ("making", "waiting", "share"),
    [(0.0, 0.0, 0.0), (3.0, 0.0, 0.3), (3.0, 0.4, 0.3), (3.0, 5.0, 0.0), (20.0, 0.0, 1.0)],
)
def test_a_host_that_waits_for_the_device_has_its_batches_in_time(making, waiting, share):
    assert share_waited(making=making, waiting=waiting, seconds=10.0) == share


def test_waiting_is_measured_since_the_last_reading():
    pace = Pace()
    meter = WaitMeter(pace)
    assert meter.read(0.0) is None
    pace.making_seconds = 1.0
    assert meter.read(10.0) == 0.1
    assert meter.read(10.0) == 0.0


def test_memory_is_read_of_this_process():
    memory = read_memory(torch.device("cpu"))
    assert 0 < memory.used_bytes <= memory.peak_bytes < memory.total_bytes
    status = "Name:\tpython\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n"
    told = read_process_memory(status, total_bytes=None)
    assert (told.used_bytes, told.peak_bytes) == (2**20, 2**21)
    assert read_process_memory("Name:\tkthread\n", total_bytes=None) is None


@pytest.mark.parametrize(
    ("group", "host", "total"),
    [
        ("max\n", "MemTotal:  1024 kB\n", 2**20),
        ("524288\n", "MemTotal:  1024 kB\n", 2**19),
        (None, "MemTotal:  1024 kB\n", 2**20),
        (None, None, None),
    ],
)
def test_a_container_may_have_less_memory_than_its_host(tmp_path, group, host, total):
    files = (tmp_path / "group", tmp_path / "host")
    for path, content in zip(files, (group, host), strict=True):
        if content is not None:
            path.write_text(content)
    assert find_total_bytes(files=files) == total
