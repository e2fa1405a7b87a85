"""Plain loops that train on images: a DataLoader over files, by hand or under Lightning.

Each runs in a separate process like a user's: without the memory and thread settings of a job's
process. `python -m bench.training.plain_loops WAY MODEL ARCHIVE`, with `plain` or `lightning` as
WAY, reads numbers of steps from stdin and prints the seconds that they took.
"""

import itertools
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from bench.isolated import TRAINER
from bench.machine import DEVICE
from bench.training.bare_step import build_network
from bench.turns import Chunks
from worker.trainer.devices import synchronize

BATCH = 64
SETTLE_SECONDS = 0.3
"""Pause after a chunk, in which the loader's workers fill their queues."""
ANSWER = "seconds: "
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)


class PlainProcess:
    """A plain loop in a child process, which the caller advances in chunks.

    Args:
        way: `plain` or `lightning`.
        model: Name of the model.
        archive: Zip of images.
    """

    def __init__(self, way: str, *, model: str, archive: Path) -> None:
        command = [sys.executable, "-m", "bench.training.plain_loops", way, model, str(archive)]
        variables = {name: value for name, value in os.environ.items() if name not in TRAINER}
        self._child = subprocess.Popen(
            command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, steps: int) -> float:
        """Run the given number of steps and return their seconds."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(f"{steps}\n")
        self._child.stdin.flush()
        for line in self._child.stdout:
            if line.startswith(ANSWER):
                return float(line.removeprefix(ANSWER))
        raise RuntimeError(f"the plain loop's process exited with status {self._child.wait()}")

    def close(self) -> None:
        """End the process."""
        self._child.communicate()


def plain_chunks(archive: Path, *, model: str) -> Chunks:
    """Build a plain loop over `plain_loader`, in fp32."""
    loader, folder = plain_loader(archive)

    def forever() -> Iterator[list[torch.Tensor]]:
        for _ in itertools.count():
            yield from loader

    batches = forever()
    network = build_network(model).to(DEVICE)
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)

    def chunk(steps: int) -> float:
        start = time.perf_counter()
        for images, labels in itertools.islice(batches, steps):
            outputs = network(images.to(DEVICE))
            functional.cross_entropy(outputs, labels.to(DEVICE)).backward()
            optimizer.step()
            optimizer.zero_grad()
        synchronize(DEVICE)
        seconds = time.perf_counter() - start
        time.sleep(SETTLE_SECONDS)
        return seconds

    # Keeps the temporary files while the function exists.
    chunk.folder = folder  # type: ignore[attr-defined]
    return chunk


def lightning_chunks(archive: Path, *, model: str) -> Chunks:
    """Build the same loop under Lightning's Trainer; a chunk is one call of `fit`."""
    import lightning

    class Task(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = build_network(model)

        def training_step(self, batch: list[torch.Tensor], _place: int) -> torch.Tensor:
            images, labels = batch
            return functional.cross_entropy(self.network(images), labels)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=2e-3)

    # It logs the same lines about devices at every start.
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    loader, folder = plain_loader(archive)
    task = Task()

    def chunk(steps: int) -> float:
        # The clock skips the first step, because starting a Trainer is not training.
        clock = StepClock()
        trainer = lightning.Trainer(
            max_steps=steps + 1,
            accelerator="gpu" if DEVICE.type == "cuda" else "cpu",
            devices=1,
            callbacks=[clock.as_callback(lightning.Callback)],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(task, loader)
        time.sleep(SETTLE_SECONDS)
        return clock.seconds

    chunk.folder = folder  # type: ignore[attr-defined]
    return chunk


class StepClock:
    """Seconds from the end of a fit's first step to the end of its last."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._started: float | None = None

    def as_callback(self, base: Any) -> Any:
        """Build a Lightning callback that calls `tick` after each step."""
        clock = self

        class Callback(base):  # type: ignore[misc]
            def on_train_batch_end(self, *_args: object, **_kwargs: object) -> None:
                clock.tick()

        return Callback()

    def tick(self) -> None:
        """Record the end of a step."""
        now = time.perf_counter()
        if self._started is None:
            self._started = now
        self.seconds = now - self._started


def plain_loader(
    archive: Path,
) -> tuple[DataLoader[tuple[torch.Tensor, int]], tempfile.TemporaryDirectory[str]]:
    """Build a DataLoader whose workers open, rotate and normalise file by file.

    Returns:
        The loader, and the temporary folder of its files, which must outlive it.
    """
    folder = tempfile.TemporaryDirectory(prefix="bench-plain-")
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder.name)
    loader: DataLoader[tuple[torch.Tensor, int]] = DataLoader(
        FileDataset(Path(folder.name) / "train"),
        batch_size=BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=2,
        persistent_workers=True,
    )
    return loader, folder


class FileDataset(Dataset[tuple[torch.Tensor, int]]):
    """Images in one folder per class, each with a random flip and rotation by PIL."""

    def __init__(self, folder: Path, *, is_augmented: bool = True) -> None:
        self._is_augmented = is_augmented
        names = sorted(path.name for path in folder.iterdir())
        self._files = [
            (path, label)
            for label, name in enumerate(names)
            for path in sorted((folder / name).iterdir())
        ]
        self._mean = torch.tensor(MEAN).view(3, 1, 1)
        self._std = torch.tensor(STD).view(3, 1, 1)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path, label = self._files[index]
        image = Image.open(path).convert("RGB")
        if self._is_augmented:
            if random.random() < 0.5:
                image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            image = image.rotate(random.uniform(-10, 10), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255
        return (pixels - self._mean) / self._std, label


def serve(way: str, model: str, archive: Path) -> None:
    """Run the numbers of steps that arrive on stdin and print their seconds."""
    chunks = {"plain": plain_chunks, "lightning": lightning_chunks}[way](archive, model=model)
    for line in sys.stdin:
        print(f"{ANSWER}{chunks(int(line))}", flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
