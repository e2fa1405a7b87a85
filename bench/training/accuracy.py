"""Accuracy of whole jobs on real data with fixed seeds, with their settings, times and targets.

A job is trained, exported and scored on its test split under ONNX Runtime, like a user's job. Its
spec contains only the settings that are printed with the figure. The test split is used once, at
the end; the settings were chosen with images held out of the training split. A figure whose data is
missing in `../shared/data` is reported as not measured.

On a GPU, it also measures the samples/s of `cifar-fast` relative to its bare step, on as many
images as CIFAR-10 has.

On two cores without bf16, the image networks take some ten minutes.

`python -m bench accuracy` runs all figures; this runs one:
`python -m bench.training.accuracy mnist|cifar|cancer|equal|gpu`.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.nn import functional

from bench.image_archives import DATA, archive_dataset, generate_archive
from bench.isolated import print_results, run_isolated
from bench.machine import describe_device
from bench.result import Result, at_least, info, spread
from bench.training import equal_epochs
from bench.training.job_loop import write_job
from bench.training.whole_job import train_job
from redkiln.events import EventWriter
from redkiln.tasks import parse_spec
from redkiln.tasks.image_classification import ImageClassificationSpec
from worker.jobdir import LocalDataset
from worker.process.event_log import EventLog
from worker.process.memory import keep_freed_memory
from worker.tasks.train import build_loop
from worker.trainer.devices import autocast_of
from worker.trainer.models.builtin.cifar_fast import CifarFast
from worker.trainer.optim.optimizer import build_optimizer

FIXED = {"batch_size": 64, "compile": "off"}
"""Fixed instead of tuned on the machine, so that the figure is the same on other machines."""
FULL_SIZE = 5000, 1000
"""Training and test images per class of CIFAR-10."""
GPU_TARGET = 0.9
GPU_BATCH = 512
GPU_PAIRS = 15


@dataclass(frozen=True)
class Figure:
    """A job with a target for its accuracy.

    Attributes:
        spec: Settings that differ from the defaults.
        archive: Zip in the shared data; None for a built-in data set.
        grey_side: Side of grey images in pixels; None for 32x32 colour images.
        target: Smallest allowed test accuracy.
    """

    name: str
    spec: dict[str, Any]
    target: float
    archive: str | None = None
    grey_side: int | None = None


FIGURES = {
    "mnist": Figure(
        "MNIST-12k test accuracy",
        {
            "task": "image-classification",
            "model": "mnist-cnn",
            "training": {
                **FIXED,
                "epochs": 20,
                "optimizer": {"name": "adamw", "lr": 1e-2},
                "schedule": {"name": "one-cycle", "warmup_fraction": 0.2},
            },
        },
        0.985,
        archive="mnist-12k.zip",
        grey_side=28,
    ),
    "cifar": Figure(
        "CIFAR-12k test accuracy",
        {
            "task": "image-classification",
            "model": "cifar-fast",
            "training": {**FIXED, "batch_size": 128, "validation_fraction": 0.0},
        },
        0.79,
        archive="cifar10-12k.zip",
    ),
    "cancer": Figure(
        "breast cancer test accuracy",
        {"task": "tabular-classification", "dataset": "builtin:breast-cancer"},
        0.96,
    ),
}


def run() -> list[Result]:
    """Measure every figure in a separate process."""
    figures = (*FIGURES, "equal", "gpu")
    return [result for name in figures for result in run_isolated("bench.training.accuracy", name)]


def measure(name: str) -> list[Result]:
    """Measure one of the figures; return an empty list for `gpu` on a machine without one."""
    if name == "gpu":
        return [over_bare_step()] if torch.cuda.is_available() else []
    if name == "equal":
        keep_freed_memory()
        return equal_epochs.measure()
    figure = FIGURES[name]
    if figure.archive is not None and not (DATA / figure.archive).exists():
        return [info(figure.name, float("nan"), "", f"not measured: {figure.archive} is missing")]
    keep_freed_memory()
    with tempfile.TemporaryDirectory(prefix="bench-accuracy-") as folder:
        return [train_figure(figure, Path(folder))]


def train_figure(figure: Figure, root: Path) -> Result:
    """Train, export and score a job; return its accuracy under ONNX Runtime."""
    if figure.archive is None:
        name = figure.spec["dataset"]
        dataset = LocalDataset(name=name, kind="builtin", fingerprint=name)
    else:
        dataset = archive_dataset(DATA / figure.archive, root, grey_side=figure.grey_side)
    trained = train_job({"dataset": dataset.name, **figure.spec}, dataset, root)
    training = trained.training
    detail = (
        f"{json.dumps({k: v for k, v in figure.spec.items() if k != 'task'})}; seed "
        f"{training['seed']}, {training['epochs']} epochs in {trained.seconds:.0f} s, "
        f"{trained.model_name}, batch {training['batch_size']}, {training['precision']}, "
        f"{describe_device()}; torch {trained.metrics['test/accuracy']:.4f}, "
        f"ONNX {'verified' if trained.is_verified else 'UNVERIFIED'}"
    )
    return at_least(figure.name, trained.metrics["test/accuracy_onnx"], "", figure.target, detail)


def over_bare_step() -> Result:
    """Compare an epoch of a job's loop with as many bare steps on the GPU, alternately."""
    device = torch.device("cuda:0")
    with tempfile.TemporaryDirectory(prefix="bench-accuracy-") as folder:
        root = Path(folder)
        archive = generate_archive(root / "cifar.zip", counts=FULL_SIZE)
        dataset = archive_dataset(archive, root)
        training = {"epochs": 1000, "batch_size": GPU_BATCH, "validation_fraction": 0.0}
        spec = {"dataset": "bench", "model": "cifar-fast", "training": training}
        spec = {"task": "image-classification", **spec}
        job_dir = write_job(root, spec, dataset, device=str(device))
        with EventWriter(job_dir.events_path) as writer:
            event_log = EventLog(writer, progress_seconds=1.0)
            loop, setup = build_loop(
                job_dir, job_dir.load_order(), event_log=event_log, should_stop=lambda: False
            )
            steps = setup.plan.steps_per_epoch
            precision = setup.spec.training.precision
            ours = _timed(lambda: loop.advance(steps))
            bare = _timed(_bare_steps(spec, device, precision=precision, steps=steps))
            ours(), bare()  # both warm up
            pairs = []
            for pair in range(GPU_PAIRS):
                first, second = (ours, bare) if pair % 2 else (bare, ours)
                times = {first: first(), second: second()}
                pairs.append((times[bare], times[ours]))
    ratio = median(b / o for b, o in pairs)
    rate = steps * GPU_BATCH / median(o for _, o in pairs)
    detail = (
        f"{rate:,.0f} samples/s; {spread([b / o for b, o in pairs])}; an epoch of {steps} steps of "
        f"{GPU_BATCH}, {precision}, flip + crop, {torch.cuda.get_device_name(device)}"
    )
    return at_least("cifar-fast over its bare step on the GPU", ratio, "ratio", GPU_TARGET, detail)


def _bare_steps(
    spec: dict[str, Any], device: torch.device, *, precision: str, steps: int
) -> Callable[[], object]:
    parsed = parse_spec(spec)
    assert isinstance(parsed, ImageClassificationSpec)
    training = parsed.training
    model = CifarFast(channels=3, image_size=32, num_classes=10).to(device)
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = build_optimizer(model, training.optimizer)
    images = torch.randn(GPU_BATCH, 3, 32, 32, device=device)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(10, (GPU_BATCH,), device=device)

    def run_steps() -> None:
        for _ in range(steps):
            with autocast_of(device, precision):
                outputs = model(images)
            loss = functional.cross_entropy(
                outputs.float(), labels, label_smoothing=training.label_smoothing
            )
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return run_steps


def _timed(setup: Callable[[], object]) -> Callable[[], float]:
    def seconds() -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        setup()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    return seconds


if __name__ == "__main__":
    print_results(measure(sys.argv[1]))
