"""A job's loop in this process, and a device that replaces a missing GPU.

The device's tensors are torch's own: `meta` has shapes and no numbers, and everything that moves
between it and the CPU goes through the same operators as with a GPU; `cpu` has numbers too. Its
clock and the counts of its memory are what a test says.
"""

import json
import os
import shutil
import sys
from dataclasses import dataclass, field

import pytest
import torch

from redkiln.events import EventWriter
from tests.forked import WarmProcess
from worker.process.event_log import EventLog
from worker.tasks.train import build_loop
from worker.trainer.ranks.launcher import build_rank_environment

RANK = "tests.worker.rank_pair"
RANK_TASKS = ("image_classification", "object_detection", "tabular", "text_classification")


@dataclass
class FakeDevice:
    """A `worker.trainer.guard.device_layer.DeviceLayer`; each mark is one second after the last."""

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
def make_event_log(tmp_path):
    """A report and the path of its events."""
    writers = []

    def make(name="events.jsonl"):
        writers.append(EventWriter(tmp_path / name))
        return EventLog(writers[-1], progress_seconds=1000.0)

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
        event_log = EventLog(writer, progress_seconds=progress_seconds)
        order = job_dir.load_order()
        box = []
        loop, setup = build_loop(
            job_dir,
            order,
            event_log=event_log,
            should_stop=lambda: stop_after is not None and box[0].step >= stop_after,
        )
        box.append(loop)
        return loop, setup

    yield build
    for writer in writers:
        writer.close()


@pytest.fixture
def run_out_of_memory():
    """Lets a model run out of memory with more than `limit` samples at once.

    It does between two of its calls in training, and meanwhile when it is scored, too.
    """

    def shrink(model, *, limit, from_call=1, until_call=10**9):
        forward, calls = model.forward, [0]

        def limited(*inputs):
            calls[0] += model.training
            is_time = from_call <= max(1, calls[0]) <= until_call
            if is_time and len(inputs[0]) > limit:
                raise torch.OutOfMemoryError(f"HIP out of memory with {len(inputs[0])} samples")
            return forward(*inputs)

        model.forward = limited

    return shrink


class RankPair:
    """Two processes that make jobs as the two ranks of each (rank_pair.py)."""

    def __init__(self, log_path):
        self._log_path = log_path
        self._warm = WarmProcess([RANK], more=[f"worker.tasks.{task}.setup" for task in RANK_TASKS])
        self._children = [self._start(rank) for rank in range(2)]

    def make(self, job_dir, **faults):
        """Have a job made; what each rank then had."""
        order = job_dir.load_order().model_copy(update={"num_ranks": 2, "threads": 2})
        job_dir.order_path.write_text(order.model_dump_json())
        shutil.rmtree(job_dir.ranks_dir, ignore_errors=True)  # a meeting place serves once
        return self._ask({"root": str(job_dir.root), "faults": faults})

    def share_weights(self, store):
        """Have each rank's network share the first one's weights; the tensors of both."""
        return self._ask({"store": str(store)})

    def _ask(self, question):
        for child in self._children:
            child.stdin.write(json.dumps(question) + "\n")
            child.stdin.flush()
        lines = [child.stdout.readline() for child in self._children]
        assert all(lines), self._log_path.read_text()[-3000:]
        return [json.loads(line) for line in lines]

    def close(self):
        for child in self._children:
            child.kill()
            child.wait()
            child.stdin.close()
            child.stdout.close()
        self._warm.close()

    def _start(self, rank):
        environment = build_rank_environment(os.environ, rank=rank, num_ranks=2, threads=1)
        with self._log_path.open("ab") as log:
            return self._warm.subprocess.Popen(
                [sys.executable, "-m", RANK],
                env=environment,
                stdin=self._warm.subprocess.PIPE,
                stdout=self._warm.subprocess.PIPE,
                stderr=log,
                text=True,
            )
