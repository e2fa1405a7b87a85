"""Seconds that a checkpoint of 1 GiB takes on this disk, which is also how long a pause takes."""

import tempfile
import time
from pathlib import Path

import torch

from bench.result import Result, at_most, info
from worker.checkpoints.checkpoint import CheckpointStore

MODEL_BYTES = 2**30
TENSORS = 64
REPEATS = 3
TARGET_SECONDS = 5.0
"""Time until the GPU is free, for a 1 GiB model whose optimiser keeps two numbers per weight."""


def run() -> list[Result]:
    """Write checkpoints."""
    return [write_one()]


def write_one() -> Result:
    """Measure how long a 1 GiB checkpoint takes to be hashed, written and synced; best of three."""
    tensors = _make_tensors(torch.device("cpu"), MODEL_BYTES)
    times = []
    with tempfile.TemporaryDirectory(prefix="bench-checkpoint-", dir=Path.cwd()) as folder:
        for step in range(REPEATS):
            store = CheckpointStore(Path(folder), keep_last=1)
            start = time.perf_counter()
            store.save(
                tensors,
                step=step,
                epoch=0,
                is_best=False,
                metrics={},
                threads=torch.get_num_threads(),
                device="cpu",
                state={},
            )
            times.append(time.perf_counter() - start)
    listed = ", ".join(f"{seconds:.1f}" for seconds in times)
    detail = f"hashed, written and synced; runs of {listed} s, the best counts"
    if torch.cuda.is_available():
        return info("checkpoint of 1 GiB", min(times), "s", detail)
    return at_most("checkpoint of 1 GiB", min(times), "s", TARGET_SECONDS, detail)


def _make_tensors(device: torch.device, num_bytes: int) -> dict[str, torch.Tensor]:
    size = num_bytes // 4 // TENSORS
    return {f"model/{n}": torch.randn(size, device=device) for n in range(TENSORS)}
