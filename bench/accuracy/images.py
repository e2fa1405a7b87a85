"""Jobs of each quality on colour images: accuracy under ONNX Runtime, and time of training.

The images are a part of CIFAR-10 next to the checkout. Each job has default settings except for
what its name says. Results are printed as Markdown for `results/`.

`python -m bench.accuracy images [--train N] [--test N] [--only JOB]`
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.accuracy.default_job import score_images, train_job
from bench.image_archives import CIFAR, archive_dataset, thin_archive
from bench.training.job_loop import write_job
from redkiln.spec.job_spec import JobSpec

JOBS = {
    "fast": {"quality": "fast"},
    "balanced": {},
    "balanced, resnet18": {"model": "resnet18"},
    "best, amdnet": {"quality": "best", "model": "amdnet"},
    "best": {"quality": "best"},
}


@dataclass(frozen=True)
class Measured:
    """What one job achieved.

    Attributes:
        accuracy: Share of right answers on the test images.
        cpu_seconds: Processor time of the training, of all threads.
        seconds: Time of the training.
    """

    name: str
    resolved: JobSpec
    accuracy: float
    cpu_seconds: float
    seconds: float


def measure(name: str, archive: Path) -> Measured:
    """Train a job and score its ONNX file."""
    with tempfile.TemporaryDirectory(prefix="bench-images-") as folder:
        root = Path(folder)
        spec = {"task": "image-classification", "dataset": "bench", **JOBS[name]}
        job_dir = write_job(root, spec, archive_dataset(archive, root))
        start, cpu_start = time.perf_counter(), time.process_time()
        resolved = train_job(job_dir)
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
        accuracy = score_images(job_dir, resolved, root / "model.onnx")
    return Measured(name, resolved, accuracy, cpu_seconds, seconds)


def main(arguments: Sequence[str]) -> None:
    """Measure jobs one after the other, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy images")
    parser.add_argument("--train", type=int, default=100, help="training images of each class")
    parser.add_argument("--test", type=int, default=100, help="test images of each class")
    parser.add_argument("--only", action="append", choices=JOBS, help="a job, may be repeated")
    asked = parser.parse_args(arguments)
    print("| job | model | epochs | test accuracy | CPU s | s |\n| -- | -- | -- | -- | -- | -- |")
    with tempfile.TemporaryDirectory(prefix="bench-images-") as folder:
        archive = thin_archive(
            CIFAR, Path(folder) / "part.zip", counts={"train": asked.train, "test": asked.test}
        )
        for name in asked.only or JOBS:
            print(_row(measure(name, archive)), flush=True)


def _row(found: Measured) -> str:
    spec = found.resolved.model_dump()
    return (
        f"| {found.name} | {spec['model']['name']} | {spec['training']['epochs']} "
        f"| {found.accuracy:.1%} | {found.cpu_seconds:.0f} | {found.seconds:.0f} |"
    )
