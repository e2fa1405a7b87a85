"""What the training loop costs: its samples/s over those of the bare step, and of a plain loop.

Ways to train amdnet (batch 64, 32x32) and resnet18 (batch 128) take turns, a chunk of steps each,
so that whatever else the machine does hits all of them:

- bare: forward, backward and optimiser step on resident random tensors, nothing else;
- redkiln: the loop of a real job with flip, rotation and normalisation; a chunk is an epoch with
  its checkpoint and events, evaluation excluded;
- plain: a PyTorch DataLoader over files with the usual transforms written with PIL, in fp32;
- lightning: the same loader and model under Lightning's Trainer with its defaults.

The default job, with everything `auto`, is held against the last two by samples/s: batches differ.

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
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from bench.result import Result, at_least, info, spread
from redkiln.datasets import DatasetIndex, Sample, rank_within_classes
from redkiln.events import EventWriter
from redkiln.job import Phase
from redkiln.spec import AdamW
from redkiln.tasks.image_classification import Model
from worker.jobdir import JobDir, LocalDataset, Order
from worker.trainer.devices import autocast_of
from worker.trainer.memory import keep_freed_memory
from worker.trainer.models import build_model
from worker.trainer.optimizer import build_optimizer
from worker.trainer.report import Report
from worker.trainer.run import build_loop
from worker.trainer.threads import ENVIRONMENT

SHARED = Path(__file__).parents[2] / "shared" / "data" / "cifar10-12k.zip"
BATCH = 64
SIDE = 32
PAIRS = 15
PLAIN_CHUNK = 35
"""Steps of the plain loop in a chunk, of batch 64."""
WARM_UP = 10
SLOW_SHARE = 8
"""Steps of resnet18 in a chunk are so many times fewer: each takes some 50 times as long."""
CPU = torch.device("cpu")
SETTLE_SECONDS = 0.3
"""After a chunk of the plain loop: its workers go on until their queues are full."""

TARGETS = {
    ("amdnet", 64, "fp32"): 0.95,
    ("amdnet", 64, "bf16"): 0.87,
    ("resnet18", 128, "fp32"): 0.98,
}
"""Model, batch, precision, and the least share of the bare step's throughput."""
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
    """Our loop against the bare step, and default jobs against what a user would write."""
    keep_freed_memory()
    with tempfile.TemporaryDirectory(prefix="bench-training-") as folder:
        root = Path(folder)
        archive = SHARED if SHARED.exists() else generate_archive(root / "generated.zip")
        data = "CIFAR-10 (12k)" if archive == SHARED else "generated JPEGs"
        results = [
            over_bare_step(root, archive, model=model, batch=batch, precision=kind, data=data)
            for model, batch, kind in TARGETS
        ]
        for model in ("amdnet", "resnet18"):
            results += default_over_plain(root, archive, model=model, data=data)
        return results


def over_bare_step(
    root: Path, archive: Path, *, model: str, batch: int, precision: str, data: str
) -> Result:
    """A job's throughput over that of its own step."""
    training = {"precision": precision, "batch_size": batch, "compile": "off"}
    with closing(RedkilnChunks(root, archive, model=model, training=training)) as redkiln:
        bare = bare_chunks(redkiln.memory_format, model=model, batch=batch, precision=precision)
        steps = redkiln.steps_per_epoch // (1 if model == "amdnet" else SLOW_SHARE)
        seconds = alternate({"bare": bare, "redkiln": redkiln}, steps=dict.fromkeys(WAYS, steps))
    ratio, pairs = compare(seconds["bare"], seconds["redkiln"])
    rate = steps * batch / statistics.median(seconds["redkiln"])
    how = (
        f"{rate:,.0f} samples/s; pairs of {steps} steps: {pairs}; {model}, batch {batch}, flip + "
        f"rotation + normalise, {precision}, {data}, {torch.get_num_threads()} threads"
    )
    name = f"{model}: training throughput over the bare step, {precision}"
    return at_least(name, ratio, "ratio", TARGETS[model, batch, precision], how)


WAYS = ("bare", "redkiln", "plain", "lightning")


def default_over_plain(root: Path, archive: Path, *, model: str, data: str) -> list[Result]:
    """What a job makes of a CPU when nothing is asked for, over what one writes first."""
    has_tiles = bool(torch.cpu.get_capabilities().get("amx_bf16"))
    share = 1 if model == "amdnet" else SLOW_SHARE
    with closing(RedkilnChunks(root, archive, model=model, training={})) as redkiln:
        others = {"plain": plain_chunks(archive, model=model)}
        if find_spec("lightning"):
            others["lightning"] = lightning_chunks(archive, model=model)
        samples = PLAIN_CHUNK * BATCH // share
        steps = dict.fromkeys(WAYS, samples // BATCH)
        steps["redkiln"] = max(1, samples // redkiln.batch_size)
        seconds = alternate({**others, "redkiln": redkiln}, steps=steps)
    ours = [s / (steps["redkiln"] * redkiln.batch_size) for s in seconds["redkiln"]]
    results = []
    for name in others:
        theirs = [s / (steps[name] * BATCH) for s in seconds[name]]
        ratio, pairs = compare(theirs, ours)
        rates = [f"{1 / statistics.median(times):,.0f}" for times in (ours, theirs)]
        how = (
            f"{rates[0]} of {rates[1]} samples/s; {pairs}; batch {redkiln.batch_size} in "
            f"{redkiln.precision}, theirs {BATCH} in fp32; {data}, "
            f"{torch.get_num_threads()} threads"
        )
        words = "a plain DataLoader loop" if name == "plain" else "Lightning"
        title = f"{model}: default job over {words}"
        if name == "plain":
            target = TARGET_WITH_TILES if has_tiles else TARGET_WITHOUT_TILES
            results.append(at_least(title, ratio, "ratio", target, how))
        else:
            results.append(info(title, ratio, "ratio", how))
    return results


Chunks = Callable[[int], float]
"""Makes so many steps and returns the seconds that they took."""


def alternate(ways: Mapping[str, Chunks], *, steps: Mapping[str, int]) -> dict[str, list[float]]:
    """Seconds of all ways' chunks, taken in turns; who goes first changes from turn to turn."""
    for name, way in ways.items():
        way(min(WARM_UP, steps[name]))
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(PAIRS):
        for name in list(ways) if turn % 2 else reversed(list(ways)):
            seconds[name].append(ways[name](steps[name]))
    return seconds


def compare(theirs: list[float], ours: list[float]) -> tuple[float, str]:
    """The ratio of the medians, and the spread of the neighbours' ratios."""
    pairs = [their / our for their, our in zip(theirs, ours, strict=True)]
    return statistics.median(theirs) / statistics.median(ours), spread(pairs)


class RedkilnChunks:
    """A job's own loop, advanced by chunks; the time of evaluations is taken off."""

    def __init__(
        self, root: Path, archive: Path, *, model: str, training: Mapping[str, object]
    ) -> None:
        threads = torch.get_num_threads()
        folder = Path(tempfile.mkdtemp(dir=root)) / "job"
        job_dir = write_job(folder, archive, threads=threads, model=model, training=training)
        self._writer = EventWriter(job_dir.events_path)
        self._report = Report(self._writer, progress_seconds=1.0)
        self._loop, work = build_loop(
            job_dir, job_dir.load_order(), report=self._report, should_stop=lambda: False
        )
        inputs, _ = work.batches.get(0, 0)
        assert isinstance(inputs, torch.Tensor)
        self.steps_per_epoch = work.plan.steps_per_epoch
        self.precision = work.spec.training.precision
        self.batch_size = int(work.spec.training.batch_size)
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


def bare_chunks(
    memory_format: torch.memory_format, *, model: str, batch: int, precision: str
) -> Chunks:
    """The step on resident random tensors, with the same optimiser, batch and layout."""
    network = build_network(model).to(memory_format=memory_format)  # type: ignore[call-overload]
    optimizer = build_optimizer(network, AdamW())
    images = torch.rand(batch, 3, SIDE, SIDE).contiguous(memory_format=memory_format)
    labels = torch.randint(0, 10, (batch,))

    def chunk(steps: int) -> float:
        start = time.perf_counter()
        for _ in range(steps):
            with autocast_of(CPU, precision):
                outputs = network(images)
            functional.cross_entropy(outputs.float(), labels).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return time.perf_counter() - start

    return chunk


def build_network(name: str) -> nn.Module:
    """A network of the comparison."""
    options = {"image_size": SIDE, "channels": 3}
    return build_model(Model.model_validate({"name": name, "options": options}), num_classes=10)


def plain_loader(
    archive: Path,
) -> tuple[DataLoader[tuple[torch.Tensor, int]], tempfile.TemporaryDirectory[str]]:
    """What one writes first: DataLoader workers that open, turn and normalise file by file.

    The files live as long as the second of what is returned.
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


def plain_chunks(archive: Path, *, model: str) -> Chunks:
    """A plain loop over such a loader, in fp32."""
    loader, folder = plain_loader(archive)

    def forever() -> Iterator[list[torch.Tensor]]:
        for _ in itertools.count():
            yield from loader

    batches = forever()
    network = build_network(model)
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)

    def chunk(steps: int) -> float:
        start = time.perf_counter()
        for images, labels in itertools.islice(batches, steps):
            functional.cross_entropy(network(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad()
        seconds = time.perf_counter() - start
        time.sleep(SETTLE_SECONDS)
        return seconds

    # The files live as long as the function that reads them.
    chunk.folder = folder  # type: ignore[attr-defined]
    return chunk


def lightning_chunks(archive: Path, *, model: str) -> Chunks:
    """The same under Lightning's Trainer; a chunk is one `fit` of so many steps."""
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

    loader, folder = plain_loader(archive)
    task = Task()

    def chunk(steps: int) -> float:
        # A first step outside of the clock: starting a Trainer is not training.
        clock = StepClock()
        trainer = lightning.Trainer(
            max_steps=steps + 1,
            accelerator="cpu",
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
        """A callback of Lightning's that drives it."""
        clock = self

        class Callback(base):  # type: ignore[misc]
            def on_train_batch_end(self, *_args: object, **_kwargs: object) -> None:
                clock.tick()

        return Callback()

    def tick(self) -> None:
        """A step has ended."""
        now = time.perf_counter()
        if self._started is None:
            self._started = now
        self.seconds = now - self._started


class FileDataset(Dataset[tuple[torch.Tensor, int]]):
    """Images of a folder a class, with a random flip and rotation of each, by PIL."""

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


def write_job(
    root: Path, archive: Path, *, threads: int, model: str, training: Mapping[str, object]
) -> JobDir:
    """A job directory that trains a model for longer than the measurement lasts.

    Args:
        root: of the job; its parent holds the cache.
        archive: of images.
        threads: of the CPU.
        model: by its name.
        training: of the spec, beside the number of steps and the augmentation.
    """
    root.mkdir()
    index_path = root / "index.json"
    index_path.write_text(index_archive(archive).model_dump_json())
    augment = {"flip": True, "rotate_degrees": 10.0, "crop": 0.0}
    spec = {
        "task": "image-classification",
        "dataset": "bench",
        "model": model,
        "training": {"steps": 1_000_000, "augment": augment, **training},
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
