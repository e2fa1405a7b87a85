"""Training speed and memory with images that do not fit into memory.

The memory budget of the job is a quarter of its images, so it reads them from the disk, ahead of
its steps. It alternates with the bare step, as in `bench.training.loop`. The memory figure is the
peak resident size minus the peak with the bare step alone.
"""

import re
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import torch

from bench.image_archives import SIDE
from bench.isolated import print_results, run_isolated
from bench.machine import describe_device
from bench.result import Result, at_least, at_most
from bench.training.bare_step import bare_chunks
from bench.training.job_loop import JobLoop, write_job
from bench.turns import alternate, compare
from redkiln.datasets import DatasetIndex, Sample, rank_within_classes
from worker.jobdir import LocalDataset
from worker.process.memory import keep_freed_memory

COUNT = 131_072
"""Images, 403 MB of pixels: more than budget and allowance, so that the target can be missed."""
TEST_COUNT = 1024
STEPS = 120
TARGET = 0.93
ALLOWED_BYTES = 300e6
"""Resident memory allowed in addition to the budget and the memory of the bare step."""
BATCH = 64
PRECISION = "fp32"
SPEC = {
    "task": "image-classification",
    "dataset": "bench",
    "model": "amdnet",
    "training": {
        "steps": 1_000_000,  # longer than the measurement lasts
        "batch_size": BATCH,
        "precision": PRECISION,
        "augment": {"flip": True, "rotate_degrees": 10.0, "crop": 0.0},
        "validation_fraction": 0,
        "compile": "off",
    },
}


def run() -> list[Result]:
    """Measure in a separate process."""
    return run_isolated("bench.training.mapped")


def measure() -> list[Result]:
    """Measure throughput and memory relative to the bare step."""
    keep_freed_memory()
    with tempfile.TemporaryDirectory(prefix="bench-mapped-") as folder:
        root = Path(folder)
        data = write_data(root)
        data_bytes = COUNT * 3 * SIDE**2
        budget_bytes = data_bytes // 4
        bare = bare_chunks(torch.channels_last, model="amdnet", batch=BATCH, precision=PRECISION)
        bare(STEPS)
        alone = peak_bytes()
        job_dir = write_job(root, SPEC, data, data_memory_bytes=budget_bytes)
        with closing(JobLoop(job_dir)) as mapped:
            steps = {"bare": STEPS, "mapped": STEPS}
            seconds = alternate({"bare": bare, "mapped": mapped}, steps=steps)
            extra = peak_bytes() - alone
    ratio, pairs = compare(seconds["bare"], seconds["mapped"])
    how = (
        f"{PRECISION}, amdnet, batch {BATCH}, {COUNT} images of {SIDE} pixels, "
        f"{describe_device()}: {pairs}"
    )
    size = (
        f"at its peak, in addition to {alone / 1e6:.0f} MB with the bare step; "
        f"{data_bytes / 1e6:.0f} MB of images, budget {budget_bytes / 1e6:.0f} MB"
    )
    limit = (budget_bytes + ALLOWED_BYTES) / 1e6
    return [
        at_least("images from the disk over the bare step", ratio, "ratio", TARGET, how),
        at_most("resident memory for images from the disk", extra / 1e6, "MB", limit, size),
    ]


def peak_bytes() -> int:
    """Return the peak resident size of this process in bytes."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def write_data(root: Path) -> LocalDataset:
    """Write an NPZ of noise and its index."""
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


if __name__ == "__main__":
    print_results(measure())
