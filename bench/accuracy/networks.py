"""Small networks on small sets of larger pictures, and on parts of CIFAR-10.

Each job has default settings, with the longer training that a service gives to few images. Results
are means over seeds of the training, printed as Markdown for `results/`.

`python -m bench.accuracy networks [--set NAME] [--model NAME] [--seeds N] [--test N]`
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.accuracy.default_job import score_images, train_job
from bench.accuracy.image_sets import SETS, write_set
from bench.image_archives import CIFAR, SIDE, archive_dataset, thin_archive
from bench.training.job_loop import write_job
from redkiln.spec.quality import lengthen
from redkiln.tasks.image_classification import ImageTraining

PARTS = {"cifar-200": 20, "cifar-1000": 100, "cifar-9000": 900}
"""Name -> training images of each of the ten classes."""
MODELS = ("amdnet", "small-cnn")
HELD_OUT = 0.1


def measure(name: str, model: str, *, seed: int, num_test: int) -> tuple[int, float, float]:
    """Train a job and score its ONNX file.

    Returns:
        Training images, accuracy on the test images, seconds of training.
    """
    with tempfile.TemporaryDirectory(prefix="bench-networks-") as folder:
        root = Path(folder)
        if name in SETS:
            picture_set = SETS[name]
            archive = write_set(name, root / "set.zip", num_test=num_test)
            num, side = picture_set.num_train * len(picture_set.classes), picture_set.side
        else:
            counts = {"train": PARTS[name], "test": num_test}
            archive = thin_archive(CIFAR, root / "set.zip", counts=counts)
            num, side = PARTS[name] * 10, SIDE
        num_train = round(num * (1 - HELD_OUT))
        epochs = lengthen(ImageTraining().epochs, num_train=num_train)
        spec = {
            "task": "image-classification",
            "dataset": "bench",
            "model": model,
            "training": {"seed": seed, "epochs": epochs},
        }
        job_dir = write_job(root, spec, archive_dataset(archive, root, side=side))
        start = time.perf_counter()
        resolved = train_job(job_dir)
        seconds = time.perf_counter() - start
        accuracy = score_images(job_dir, resolved, root / "model.onnx")
    return num, accuracy, seconds


def main(arguments: Sequence[str]) -> None:
    """Measure jobs one after the other, and print a line for each set and network."""
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy networks")
    names = [*SETS, *(PARTS if CIFAR.exists() else {})]
    parser.add_argument("--set", action="append", choices=names, help="may be repeated")
    parser.add_argument("--model", action="append", help="may be repeated")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--test", type=int, default=100, help="test images of each class")
    asked = parser.parse_args(arguments)
    print("| set | training images | network | test accuracy | s |\n| -- | -- | -- | -- | -- |")
    for name in asked.set or names:
        for model in asked.model or MODELS:
            found = [
                measure(name, model, seed=seed, num_test=asked.test) for seed in range(asked.seeds)
            ]
            accuracies = [accuracy for _, accuracy, _ in found]
            seconds = np.mean([taken for _, _, taken in found])
            print(
                f"| {name} | {found[0][0]:,} | {model} | {np.mean(accuracies):.1%} "
                f"({min(accuracies):.1%} to {max(accuracies):.1%}) | {seconds:.0f} |",
                flush=True,
            )
