"""What the training loop costs: its samples/s over those of the bare step, and of a plain loop.

Ways to train amdnet (batch 64, 32x32) take turns, a chunk of steps each, so that whatever else the
machine does hits all of them, once in fp32 and once in bf16:

- bare: forward, backward and optimiser step on resident random tensors, nothing else;
- redkiln: the loop of a real job with flip, rotation and normalisation; a chunk is an epoch with
  its checkpoint and events, evaluation excluded;
- plain: a PyTorch DataLoader over files with the usual transforms written with PIL.

A ratio is that of the medians; beside it stands the spread of the ratios of neighbouring chunks.
"""

import hashlib
import io
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from bench.result import Result, at_least, spread
from redkiln.datasets import DatasetIndex, Sample, rank_within_classes
from redkiln.events import EventWriter
from redkiln.job import Phase
from redkiln.spec import AdamW
from worker.jobdir import JobDir, LocalDataset, Order
from worker.trainer.devices import autocast_of
from worker.trainer.memory import keep_freed_memory
from worker.trainer.models.amdnet import AmdNet
from worker.trainer.optimizer import build_optimizer
from worker.trainer.report import Report
from worker.trainer.run import build_loop
from worker.trainer.threads import ENVIRONMENT

SHARED = Path(__file__).parents[2] / "shared" / "data" / "cifar10-12k.zip"
BATCH = 64
SIDE = 32
PAIRS = 15
PLAIN_CHUNK = 35
WARM_UP = 10
CPU = torch.device("cpu")
SETTLE_SECONDS = 0.3
"""After a chunk of the plain loop: its workers go on until their queues are full."""

TARGETS = {"fp32": 0.93, "bf16": 0.87}
TARGET_WITH_TILES = 2.5
TARGET_WITHOUT_TILES = 1.15
"""Of a default job over a plain loop, on a CPU with matrix units for bf16 (AMX) or without."""
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)


def run() -> list[Result]:
    """Measure in a process of its own, whose threads and memory are set as a trainer's are."""
    environment = {**ENVIRONMENT, **os.environ}
    command = [sys.executable, "-m", "bench.training"]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    *_log, results = done.stdout.splitlines()
    return [Result(**item) for item in json.loads(results)]


def measure() -> list[Result]:
    """Our loop against the bare step in both precisions, and a default job against a plain loop."""
    keep_freed_memory()
    with tempfile.TemporaryDirectory(prefix="bench-training-") as folder:
        root = Path(folder)
        archive = SHARED if SHARED.exists() else generate_archive(root / "generated.zip")
        data = "CIFAR-10 (12k)" if archive == SHARED else "generated JPEGs"
        results = [
            over_bare_step(root, archive, precision=precision, data=data) for precision in TARGETS
        ]
        return [*results, default_over_plain(root, archive, data=data)]


def over_bare_step(root: Path, archive: Path, *, precision: str, data: str) -> Result:
    """A job's throughput over that of its own step."""
    with closing(RedkilnChunks(root, archive, precision=precision)) as redkiln:
        bare = bare_chunks(redkiln.memory_format, precision=precision)
        ours = alternate(bare, redkiln, steps=redkiln.steps_per_epoch)
    ratio, how = compare(*ours, steps=redkiln.steps_per_epoch, data=f"{precision}, {data}")
    name = f"training throughput over the bare step, {precision}"
    return at_least(name, ratio, "ratio", TARGETS[precision], how)


def default_over_plain(root: Path, archive: Path, *, data: str) -> Result:
    """What a job makes of a CPU when nothing is asked for, over what one writes first."""
    has_tiles = bool(torch.cpu.get_capabilities().get("amx_bf16"))
    with closing(RedkilnChunks(root, archive, precision="auto")) as redkiln:
        plain = plain_chunks(archive)
        seconds = alternate(plain, redkiln, steps=PLAIN_CHUNK)
    words = f"precision {redkiln.precision}, the plain loop fp32; {data}"
    ratio, how = compare(*seconds, steps=PLAIN_CHUNK, data=words)
    target = TARGET_WITH_TILES if has_tiles else TARGET_WITHOUT_TILES
    return at_least("default job over a plain DataLoader loop", ratio, "ratio", target, how)


Chunks = Callable[[int], float]
"""Makes so many steps and returns the seconds that they took."""


def alternate(bare: Chunks, other: Chunks, *, steps: int) -> tuple[list[float], list[float]]:
    """Seconds of both ways' chunks, taken in turns; who goes first changes from pair to pair."""
    for way in (bare, other):
        way(WARM_UP)
    seconds: dict[Chunks, list[float]] = {bare: [], other: []}
    for pair in range(PAIRS):
        for way in (bare, other) if pair % 2 else (other, bare):
            seconds[way].append(way(steps))
    return seconds[bare], seconds[other]


def compare(bare: list[float], other: list[float], *, steps: int, data: str) -> tuple[float, str]:
    """The ratio of the medians, and how it came about."""
    bare_median, median = statistics.median(bare), statistics.median(other)
    pairs = [b / o for b, o in zip(bare, other, strict=True)]
    how = (
        f"{steps * BATCH / median:,.0f} of {steps * BATCH / bare_median:,.0f} samples/s; pairs of "
        f"{steps} steps: {spread(pairs)}; amdnet, batch {BATCH}, flip + rotation + normalise, "
        f"{data}, {torch.get_num_threads()} threads"
    )
    return bare_median / median, how


class RedkilnChunks:
    """A job's own loop, advanced by chunks; the time of evaluations is taken off."""

    def __init__(self, root: Path, archive: Path, *, precision: str) -> None:
        threads = torch.get_num_threads()
        job_dir = write_job(root / precision, archive, threads=threads, precision=precision)
        self._writer = EventWriter(job_dir.events_path)
        self._report = Report(self._writer, progress_seconds=1.0)
        self._loop, work = build_loop(
            job_dir, job_dir.load_order(), report=self._report, should_stop=lambda: False
        )
        inputs, _ = work.batches.get(0, 0)
        assert isinstance(inputs, torch.Tensor)
        self.steps_per_epoch = work.plan.steps_per_epoch
        self.precision = work.spec.training.precision
        is_last = inputs.is_contiguous(memory_format=torch.channels_last)
        self.memory_format = torch.channels_last if is_last else torch.contiguous_format

    def __call__(self, steps: int) -> float:
        """Seconds of so many steps."""
        before = self._report.settle().get(Phase.EVALUATING, 0.0)
        start = time.perf_counter()
        self._loop.advance(steps)
        seconds = time.perf_counter() - start
        return seconds - (self._report.settle().get(Phase.EVALUATING, 0.0) - before)

    def close(self) -> None:
        """Close the events."""
        self._writer.close()


def bare_chunks(memory_format: torch.memory_format, *, precision: str) -> Chunks:
    """The step on resident random tensors, with the same optimiser, batch and layout."""
    model = AmdNet(channels=3, image_size=SIDE, num_classes=10)
    model = model.to(memory_format=memory_format)  # type: ignore[call-overload]
    optimizer = build_optimizer(model, AdamW())
    images = torch.rand(BATCH, 3, SIDE, SIDE).contiguous(memory_format=memory_format)
    labels = torch.randint(0, 10, (BATCH,))

    def chunk(steps: int) -> float:
        start = time.perf_counter()
        for _ in range(steps):
            with autocast_of(CPU, precision):
                outputs = model(images)
            functional.cross_entropy(outputs.float(), labels).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return time.perf_counter() - start

    return chunk


def plain_chunks(archive: Path) -> Chunks:
    """What one writes first: DataLoader workers that open, turn and normalise file by file."""
    folder = tempfile.TemporaryDirectory(prefix="bench-plain-")
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder.name)
    files = FileDataset(Path(folder.name) / "train")
    loader: DataLoader[tuple[torch.Tensor, int]] = DataLoader(
        files,
        batch_size=BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=2,
        persistent_workers=True,
    )

    def forever() -> Iterator[list[torch.Tensor]]:
        for _ in itertools.count():
            yield from loader

    batches = forever()
    model = AmdNet(channels=3, image_size=SIDE, num_classes=10)
    optimizer = build_optimizer(model, AdamW())

    def chunk(steps: int) -> float:
        start = time.perf_counter()
        for images, labels in itertools.islice(batches, steps):
            functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad()
        seconds = time.perf_counter() - start
        time.sleep(SETTLE_SECONDS)
        return seconds

    # The files live as long as the function that reads them.
    chunk.folder = folder  # type: ignore[attr-defined]
    return chunk


class FileDataset(Dataset[tuple[torch.Tensor, int]]):
    """Images of a folder a class, with a random flip and rotation of each, by PIL."""

    def __init__(self, folder: Path) -> None:
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
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        image = image.rotate(random.uniform(-10, 10), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255
        return (pixels - self._mean) / self._std, label


def write_job(root: Path, archive: Path, *, threads: int, precision: str) -> JobDir:
    """A job directory that trains amdnet for longer than the measurement lasts."""
    root.mkdir()
    index_path = root / "index.json"
    index_path.write_text(index_archive(archive).model_dump_json())
    augment = {"flip": True, "rotate_degrees": 10.0, "crop": 0.0}
    spec = {
        "task": "image-classification",
        "dataset": "bench",
        "model": "amdnet",
        "training": {
            "steps": 1_000_000,
            "batch_size": BATCH,
            "augment": augment,
            "precision": precision,
        },
    }
    order = Order(
        job_id="job_bench",
        job_name="bench",
        attempt_id="att_bench",
        spec=spec,
        dataset=LocalDataset(
            name="bench",
            kind="archive",
            path=str(archive),
            index_path=str(index_path),
            fingerprint=hashlib.sha256(archive.read_bytes()).hexdigest(),
        ),
        device="cpu",
        threads=threads,
        cache_dir=str(root.parent / "cache"),
    )
    job_dir = JobDir(root / "job")
    job_dir.root.mkdir()
    job_dir.order_path.write_text(order.model_dump_json())
    return job_dir


def index_archive(archive: Path) -> DatasetIndex:
    """The index of a zip of `train/<class>/*` and `test/<class>/*`."""
    with zipfile.ZipFile(archive) as packed:
        names = [name for name in packed.namelist() if not name.endswith("/")]
    classes = sorted({name.split("/")[1] for name in names})
    splits = {}
    for split in ("train", "test"):
        mine = sorted(name for name in names if name.startswith(f"{split}/"))
        labels = [classes.index(name.split("/")[1]) for name in mine]
        ranks = rank_within_classes(labels, seed=0)
        splits[split] = [
            Sample(path=name, label=label, rank=rank)
            for name, label, rank in zip(mine, labels, ranks, strict=True)
        ]
    return DatasetIndex(
        classes=classes,
        splits={"train": splits["train"], "test": splits["test"]},
        image_size=(SIDE, SIDE),
        mixed_sizes=False,
        channels=3,
        seed=0,
    )


def generate_archive(path: Path, *, counts: tuple[int, int] = (1000, 200)) -> Path:
    """Ten classes of coloured noise as JPEG; so many training and test images a class."""
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(path, "w") as packed:
        for split, count in zip(("train", "test"), counts, strict=True):
            for label in range(10):
                for number in range(count):
                    pixels = rng.integers(0, 128, (SIDE, SIDE, 3)) + 12 * label
                    buffer = io.BytesIO()
                    Image.fromarray(pixels.astype(np.uint8)).save(buffer, "JPEG")
                    packed.writestr(f"{split}/class{label}/{number:04d}.jpg", buffer.getvalue())
    return path


if __name__ == "__main__":
    print(json.dumps([result.as_dict() for result in measure()]))
