"""What it costs to train on images that do not fit the memory.

A job whose images may take a quarter of what they are reads them from the disk, ahead of its steps;
it takes turns with the bare step, as in `bench.training`. Beside it stands what the process took:
the most that was resident over what it was with the bare step alone.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import torch

from bench.result import Result, at_least, at_most
from bench.training import BATCH, SIDE, alternate, bare_chunks, compare
from redkiln.datasets import DatasetIndex, Sample, rank_within_classes
from redkiln.events import EventWriter
from redkiln.job import Phase
from worker.jobdir import JobDir, LocalDataset, Order
from worker.trainer.memory import keep_freed_memory
from worker.trainer.report import Report
from worker.trainer.run import build_loop
from worker.trainer.threads import ENVIRONMENT

COUNT = 131_072
"""Images, 403 MB of pixels: more than the allowance beside the budget, so that it can be missed."""
TEST_COUNT = 1024
STEPS = 120
TARGET = 0.93
ALLOWED_BYTES = 300e6
"""That may be resident beside the budget and what the bare step takes."""
PRECISION = "fp32"


def run() -> list[Result]:
    """Measure in a process of its own, whose threads and memory are set as a trainer's are."""
    environment = {**ENVIRONMENT, **os.environ}
    command = [sys.executable, "-m", "bench.mapped"]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    *_log, results = done.stdout.splitlines()
    return [Result(**item) for item in json.loads(results)]


def measure() -> list[Result]:
    """Throughput over the bare step, and memory over the bare step's."""
    keep_freed_memory()
    with tempfile.TemporaryDirectory(prefix="bench-mapped-") as folder:
        root = Path(folder)
        data = write_data(root)
        data_bytes = COUNT * 3 * SIDE**2
        budget_bytes = data_bytes // 4
        bare = bare_chunks(torch.channels_last, model="amdnet", batch=BATCH, precision=PRECISION)
        bare(STEPS)
        alone = peak_bytes()
        job_dir = write_job(root, data, budget_bytes=budget_bytes)
        with closing(Chunks(job_dir)) as mapped:
            steps = {"bare": STEPS, "mapped": STEPS}
            seconds = alternate({"bare": bare, "mapped": mapped}, steps=steps)
            extra = peak_bytes() - alone
    ratio, pairs = compare(seconds["bare"], seconds["mapped"])
    how = (
        f"{PRECISION}, amdnet, batch {BATCH}, {COUNT} images of {SIDE} pixels, "
        f"{torch.get_num_threads()} threads: {pairs}"
    )
    size = (
        f"at its peak, for {data_bytes / 1e6:.0f} MB of images and a budget of "
        f"{budget_bytes / 1e6:.0f} MB, over {alone / 1e6:.0f} MB with the bare step"
    )
    limit = (budget_bytes + ALLOWED_BYTES) / 1e6
    return [
        at_least("images from the disk over the bare step", ratio, "ratio", TARGET, how),
        at_most("resident memory for images from the disk", extra / 1e6, "MB", limit, size),
    ]


def peak_bytes() -> int:
    """The most that this process had resident so far."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


class Chunks:
    """A job's own loop, advanced by chunks; the time of evaluations is taken off."""

    def __init__(self, job_dir: JobDir) -> None:
        self._writer = EventWriter(job_dir.events_path)
        self._report = Report(self._writer, progress_seconds=1.0)
        self._loop, self._work = build_loop(
            job_dir, job_dir.load_order(), report=self._report, should_stop=lambda: False
        )

    def __call__(self, steps: int) -> float:
        """Seconds of so many steps."""
        before = self._report.settle().get(Phase.EVALUATING, 0.0)
        start = time.perf_counter()
        self._loop.advance(steps)
        seconds = time.perf_counter() - start
        return seconds - (self._report.settle().get(Phase.EVALUATING, 0.0) - before)

    def close(self) -> None:
        """End reading ahead."""
        self._work.close()
        self._writer.close()


def write_data(root: Path) -> LocalDataset:
    """An NPZ of noise and its index."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (COUNT, SIDE, SIDE, 3), dtype=np.uint8)
    np.savez(root / "data.npz", images=pixels)
    labels = [row % 10 for row in range(COUNT)]
    cut = COUNT - TEST_COUNT
    splits = {}
    for split, rows in (("train", range(cut)), ("test", range(cut, COUNT))):
        ranks = rank_within_classes([labels[row] for row in rows], seed=0)
        splits[split] = [
            Sample(path="images.npy", row=row, label=labels[row], rank=rank)
            for row, rank in zip(rows, ranks, strict=True)
        ]
    index = DatasetIndex(
        classes=[str(label) for label in range(10)],
        splits={"train": splits["train"], "test": splits["test"]},
        image_size=(SIDE, SIDE),
        mixed_sizes=False,
        channels=3,
        seed=0,
    )
    (root / "index.json").write_text(index.model_dump_json(exclude_none=True))
    return LocalDataset(
        name="bench",
        kind="archive",
        path=str(root / "data.npz"),
        index_path=str(root / "index.json"),
        fingerprint="bench-mapped",
    )


def write_job(root: Path, data: LocalDataset, *, budget_bytes: int) -> JobDir:
    """A job that trains for longer than the measurement lasts."""
    spec = {
        "task": "image-classification",
        "dataset": "bench",
        "model": "amdnet",
        "training": {
            "steps": 1_000_000,
            "batch_size": BATCH,
            "precision": PRECISION,
            "augment": {"flip": True, "rotate_degrees": 10.0, "crop": 0.0},
            "validation_fraction": 0,
            "compile": "off",
        },
    }
    order = Order(
        job_id="job_bench",
        job_name="bench",
        attempt_id="att_bench",
        spec=spec,
        dataset=data,
        device="cpu",
        threads=torch.get_num_threads(),
        cache_dir=str(root / "cache"),
        data_memory_bytes=budget_bytes,
    )
    job_dir = JobDir(root / "job")
    job_dir.root.mkdir()
    job_dir.order_path.write_text(order.model_dump_json())
    return job_dir


if __name__ == "__main__":
    print(json.dumps([result.as_dict() for result in measure()]))
