"""What a checkpoint costs: seconds for 1 GiB on this disk, which is also how long a pause takes."""

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
"""Until the GPU is free, for a model of 1 GiB whose optimiser holds two numbers a weight."""


def run() -> list[Result]:
    """Write checkpoints."""
    return [write_one()]


def write_one() -> Result:
    """Seconds until a checkpoint of 1 GiB is on the disk, hashed and synced; the best of three."""
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
    detail = f"hashed, written and synced; runs of {listed} s; {min(times):.1f} s is the best"
    if torch.cuda.is_available():
        return info("checkpoint of 1 GiB", min(times), "s", detail)
    return at_most("checkpoint of 1 GiB", min(times), "s", TARGET_SECONDS, detail)


def _make_tensors(device: torch.device, num_bytes: int) -> dict[str, torch.Tensor]:
    size = num_bytes // 4 // TENSORS
    return {f"model/{n}": torch.randn(size, device=device) for n in range(TENSORS)}
