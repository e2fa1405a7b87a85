"""Rows per second of a job on a table, relative to a plain loop.

Two ways to train the same network (mlp, hidden layers of 128 and 64, dropout 0.1) on the same
10^6 rows of 20 numbers, batch 1024, AdamW, fp32, alternate in chunks of steps:

- redkiln: the loop of a real job, checkpoints and events included, evaluation excluded; one thread
  computes steps as small as these;
- plain: a shuffled DataLoader over a TensorDataset of rows that are already standardised.

The figure is the median ratio of neighbouring chunks; the detail shows the spread.
"""

import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from pyarrow import parquet
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from bench.isolated import print_results, run_isolated
from bench.machine import DEVICE, describe_device
from bench.result import Result, at_least, info
from bench.training.job_loop import JobLoop, write_job
from bench.turns import Chunks, alternate, compare
from redkiln.datasets import rank_within_classes
from redkiln.tables import METADATA_KEY, RANK, TARGET, Column, TableIndex
from worker.jobdir import LocalDataset
from worker.process.memory import keep_freed_memory
from worker.trainer.devices import synchronize

ROWS = 1_000_000
COLUMNS = 20
BATCH = 1024
HIDDEN = (128, 64)
DROPOUT = 0.1
CHUNK = 320
TARGET_RATIO = 4.0
LEARNING_RATE = 2e-3
SPEC = {
    "task": "tabular-classification",
    "dataset": "bench",
    "model": {"name": "mlp", "options": {"hidden": list(HIDDEN), "dropout": DROPOUT}},
    "training": {
        "steps": 1_000_000,  # longer than the measurement lasts
        "batch_size": BATCH,
        "precision": "fp32",
        "compile": "off",
    },
}


def run() -> list[Result]:
    """Measure in a separate process."""
    return run_isolated("bench.training.tabular")


def measure() -> list[Result]:
    """Measure both ways alternately, and the seconds from opening the table to the first step."""
    keep_freed_memory()
    with tempfile.TemporaryDirectory(prefix="bench-tabular-") as folder:
        root = Path(folder)
        numbers, labels = make_rows()
        write_table(root / "table.parquet", numbers, labels)
        threads = torch.get_num_threads()
        started = time.perf_counter()
        job_dir = write_job(root, SPEC, table_of(root / "table.parquet"))
        with closing(JobLoop(job_dir)) as redkiln:
            redkiln(1)
            opened_seconds = time.perf_counter() - started
            ways: dict[str, Chunks] = {
                "redkiln": redkiln,
                "plain": plain_chunks(numbers, labels, threads=threads),
            }
            seconds = alternate(ways, steps=dict.fromkeys(ways, CHUNK))
    ours, theirs = seconds["redkiln"], seconds["plain"]
    ratio, pairs = compare(theirs, ours)
    rows = CHUNK * BATCH
    how = (
        f"{rows / statistics.median(ours):,.0f} over {rows / statistics.median(theirs):,.0f} "
        f"rows/s; pairs of {CHUNK} steps: {pairs}; {ROWS:,} rows of {COLUMNS} numbers, "
        f"batch {BATCH}, mlp {HIDDEN}, fp32, {describe_device(redkiln.threads)}, plain {threads}"
    )
    name = "rows/s of a job on a table over a DataLoader on a TensorDataset"
    return [
        at_least(name, ratio, "ratio", TARGET_RATIO, how),
        info("table of 10^6 rows to its first step", opened_seconds, "s", "Parquet, cold caches"),
    ]


def plain_chunks(numbers: np.ndarray, labels: np.ndarray, *, threads: int) -> Chunks:
    """Build a plain loop with torch's default number of threads."""
    mean, std = numbers.mean(axis=0), numbers.std(axis=0)
    rows = torch.from_numpy(((numbers - mean) / std).astype(np.float32))
    dataset = TensorDataset(rows, torch.from_numpy(labels))
    loader = DataLoader(dataset, batch_size=BATCH, shuffle=True, drop_last=True)
    widths = (COLUMNS, *HIDDEN)
    layers: list[nn.Module] = []
    for narrow, wide in itertools.pairwise(widths):
        layers += [nn.Linear(narrow, wide), nn.ReLU(), nn.Dropout(DROPOUT)]
    model = nn.Sequential(*layers, nn.Linear(widths[-1], 2)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)

    def forever() -> Iterator[list[torch.Tensor]]:
        while True:
            yield from loader

    batches = forever()

    def chunk(steps: int) -> float:
        torch.set_num_threads(threads)
        start = time.perf_counter()
        for inputs, targets in itertools.islice(batches, steps):
            loss = functional.cross_entropy(model(inputs.to(DEVICE)), targets.to(DEVICE))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        synchronize(DEVICE)
        return time.perf_counter() - start

    return chunk


def make_rows() -> tuple[np.ndarray, np.ndarray]:
    """Generate numbers (N, 20) float32 and labels (N,) int64 that depend on some of them."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(5, 2, (ROWS, COLUMNS)).astype(np.float32)
    score = (numbers[:, 0] - 5) * (numbers[:, 1] - 5) + numbers[:, 2] - 5
    return numbers, (score + rng.normal(size=ROWS) > 0).astype(np.int64)


def write_table(path: Path, numbers: np.ndarray, labels: np.ndarray) -> None:
    """Write the rows to a Parquet file as the service does."""
    num_test = ROWS // 100
    names = [f"x{place}" for place in range(COLUMNS)]
    columns = [
        Column(
            name=name,
            type="numeric",
            mean=float(values.mean()),
            std=float(values.std()),
            minimum=float(values.min()),
            maximum=float(values.max()),
        )
        for name, values in zip(names, numbers[:-num_test].T, strict=True)
    ]
    index = TableIndex(
        task="tabular-classification",
        columns=columns,
        target="y",
        classes=["no", "yes"],
        num_train=ROWS - num_test,
        num_test=num_test,
        seed=0,
    )
    splits = (labels[:-num_test], labels[-num_test:])
    ranks = [rank for split in splits for rank in rank_within_classes(split.tolist(), seed=0)]
    arrays = {
        **{name: numbers[:, place].astype(np.float64) for place, name in enumerate(names)},
        TARGET: labels.astype(np.int32),
        RANK: np.array(ranks, np.int32),
    }
    table = pa.table(arrays).replace_schema_metadata({METADATA_KEY: index.model_dump_json()})
    parquet.write_table(table, path)


def table_of(path: Path) -> LocalDataset:
    """Describe a table as a job's order does."""
    return LocalDataset(name="bench", kind="archive", index_path=str(path), fingerprint="0" * 64)


if __name__ == "__main__":
    print_results(measure())
