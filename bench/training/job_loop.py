"""The loop of a job in this process, which the caller advances in chunks."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from bench.machine import DEVICE
from redkiln.events import EventWriter
from redkiln.status import Phase
from worker.jobdir import JobDir, LocalDataset, Order, OrderLimits, OrderPaths
from worker.process.event_log import EventLog
from worker.tasks.train import build_loop
from worker.trainer.devices import synchronize


class JobLoop:
    """A prepared job; its timings exclude evaluation.

    Attributes:
        loop: Its training loop.
        setup: Training setup that its task built.
        threads: Number of torch threads that its task chose.
    """

    def __init__(self, job_dir: JobDir) -> None:
        self._writer = EventWriter(job_dir.events_path)
        self._event_log = EventLog(self._writer, progress_seconds=1.0)
        self.loop, self.setup = build_loop(
            job_dir, job_dir.load_order(), event_log=self._event_log, should_stop=lambda: False
        )
        self.threads = torch.get_num_threads()

    def __call__(self, steps: int) -> float:
        """Run the given number of steps and return their seconds."""
        torch.set_num_threads(self.threads)
        before = self._event_log.settle().get(Phase.EVALUATING, 0.0)
        start = time.perf_counter()
        self.loop.advance(steps)
        synchronize(DEVICE)
        seconds = time.perf_counter() - start
        return seconds - (self._event_log.settle().get(Phase.EVALUATING, 0.0) - before)

    def close(self) -> None:
        """Stop the producers of batches and close the event file."""
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
    """Write a job directory below `root`, which also holds the cache."""
    order = Order(
        job_id="job_bench",
        job_name="bench",
        attempt_id="att_bench",
        spec=dict(spec),
        dataset=dataset,
        device=device,
        threads=torch.get_num_threads(),
        paths=OrderPaths(cache_dir=root / "cache"),
        limits=OrderLimits(data_memory_bytes=data_memory_bytes),
    )
    job_dir = JobDir(root / "job")
    job_dir.root.mkdir()
    job_dir.order_path.write_text(order.model_dump_json())
    return job_dir
