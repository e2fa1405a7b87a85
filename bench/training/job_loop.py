"""A job's own loop in this process, to be advanced by chunks."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from bench.machine import DEVICE
from redkiln.events import EventWriter
from redkiln.status import Phase
from worker.jobdir import JobDir, LocalDataset, Order
from worker.process.event_log import EventLog
from worker.tasks.train import build_loop
from worker.trainer.devices import synchronize


class JobLoop:
    """A prepared job; the time of its evaluations is taken off.

    Attributes:
        loop: that trains it.
        setup: what its task made of it.
        threads: that its task chose.
    """

    def __init__(self, job_dir: JobDir) -> None:
        self._writer = EventWriter(job_dir.events_path)
        self._event_log = EventLog(self._writer, progress_seconds=1.0)
        self.loop, self.setup = build_loop(
            job_dir, job_dir.load_order(), event_log=self._event_log, should_stop=lambda: False
        )
        self.threads = torch.get_num_threads()

    def __call__(self, steps: int) -> float:
        """Seconds of so many steps."""
        torch.set_num_threads(self.threads)
        before = self._event_log.settle().get(Phase.EVALUATING, 0.0)
        start = time.perf_counter()
        self.loop.advance(steps)
        synchronize(DEVICE)
        seconds = time.perf_counter() - start
        return seconds - (self._event_log.settle().get(Phase.EVALUATING, 0.0) - before)

    def close(self) -> None:
        """End what makes batches beside the loop, and close the events."""
        self.setup.close()
        self._writer.close()


def write_job(
    root: Path,
    spec: Mapping[str, Any],
    dataset: LocalDataset,
    *,
    device: str = str(DEVICE),
    data_memory_bytes: int | None = None,
) -> JobDir:
    """A job directory below `root`, which gets the cache too."""
    order = Order(
        job_id="job_bench",
        job_name="bench",
        attempt_id="att_bench",
        spec=dict(spec),
        dataset=dataset,
        device=device,
        threads=torch.get_num_threads(),
        cache_dir=str(root / "cache"),
        data_memory_bytes=data_memory_bytes,
    )
    job_dir = JobDir(root / "job")
    job_dir.root.mkdir()
    job_dir.order_path.write_text(order.model_dump_json())
    return job_dir
