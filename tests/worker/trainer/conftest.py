"""A job's loop in this process, and a device that stands in for a GPU where there is none.

The device's tensors are torch's own: `meta` has shapes and no numbers, and everything that moves
between it and the CPU goes through the same operators as with a GPU; `cpu` has numbers too. Its
clock and the counts of its memory are what a test says.
"""

from dataclasses import dataclass, field

import pytest
import torch

from redkiln.events import EventWriter
from worker.trainer.report import Report
from worker.trainer.run import build_loop


@dataclass
class FakeDevice:
    """A `worker.trainer.device_layer.DeviceLayer`; each mark is one second after the last."""

    device: torch.device = field(default_factory=lambda: torch.device("meta"))
    seconds: float = 1.0
    bytes_a_mark: int | None = 1 << 30
    peak: int = 1 << 30
    used: int = 1 << 31
    num_marks: int = 0
    waits: int = 0

    def mark(self):
        self.num_marks += 1
        return self.num_marks

    def seconds_between(self, start, end):
        assert self.waits == end, "a mark is read after the device was waited for"
        return (end - start) * self.seconds

    def synchronize(self):
        self.waits += 1

    def allocated_bytes(self):
        return None if self.bytes_a_mark is None else self.bytes_a_mark * self.num_marks

    def peak_bytes(self):
        return self.peak

    def used_bytes(self):
        return self.used


@pytest.fixture
def fake_device():
    return FakeDevice


@pytest.fixture
def make_report(tmp_path):
    """A report and the path of its events."""
    writers = []

    def make(name="events.jsonl"):
        writers.append(EventWriter(tmp_path / name))
        return Report(writers[-1], progress_seconds=1000.0)

    yield make
    for writer in writers:
        writer.close()


@pytest.fixture
def start():
    """Prepares a job's loop in this process."""
    writers = []

    def build(job_dir, *, stop_after=None, progress_seconds=0.0):
        writer = EventWriter(job_dir.events_path)
        writers.append(writer)
        report = Report(writer, progress_seconds=progress_seconds)
        order = job_dir.load_order()
        box = []
        loop, work = build_loop(
            job_dir,
            order,
            report=report,
            should_stop=lambda: stop_after is not None and box[0].step >= stop_after,
        )
        box.append(loop)
        return loop, work

    yield build
    for writer in writers:
        writer.close()
