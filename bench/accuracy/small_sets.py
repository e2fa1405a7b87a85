"""Small sets of rendered pictures: a baseline, the default, and the default with one change.

Each job has the longer training and the stronger changes of images that a service gives to few
images; `as with many images` lacks the changes. Every choice trains on the same
pictures with the same seeds and is scored under ONNX Runtime on 300 new pictures. The lines are
printed as Markdown for `results/`.

`python -m bench.accuracy small-sets [--set NAME] [--choice NAME] [--seeds N]`
"""

import argparse
import io
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from bench.accuracy.default_job import score_images, train_job
from bench.accuracy.image_sets import write_pictures
from bench.accuracy.rendered_sets import RENDERED
from bench.image_archives import archive_dataset, index_archive
from bench.training.job_loop import write_job
from redkiln.spec.quality import lengthen
from redkiln.tasks.image_classification import ImageTraining
from worker.export.baselines.compare import MOST_SECONDS
from worker.tasks.image_classification.baselines import list_baselines
from worker.tasks.imagery.opening import list_rows
from worker.trainer.images.image_set import read_labels

NUM_TEST = 300
HELD_OUT = 0.1
TIMES = "times"
"""Factor of the default epochs; every other key is a field of the spec."""
COLOURS = {"brightness": 0.3, "contrast": 0.3, "saturation": 0.3}
SMALL = {name: field.model_dump() for name, field in ImageTraining.when_small.items()}
"""What a service changes in a spec that trains on few images."""
CHOICES: dict[str, dict[str, Any]] = {
    "default": {},
    "as with many images": {"training": {"augment": {}}},
    "colours": {"training": {"augment": COLOURS}},
    "scale": {"training": {"augment": {"scale": 0.2}}},
    "shift": {"training": {"augment": {"crop": 0.2}}},
    "no rotation": {"training": {"augment": {"rotate_degrees": 0}}},
    "rotation by 30 degrees": {"training": {"augment": {"rotate_degrees": 30}}},
    "twice the epochs": {TIMES: 2},
    "half the learning rate": {"training": {"optimizer": {"name": "adamw", "lr": 1e-3}}},
    "twice the learning rate": {"training": {"optimizer": {"name": "adamw", "lr": 4e-3}}},
    "muon": {"training": {"optimizer": "muon"}},
    "label smoothing": {"training": {"label_smoothing": 0.1}},
    "average of the weights": {"training": {"ema": 0.99}},
    "no validation split": {"training": {"validation_fraction": 0}},
    "batches of 16": {"training": {"batch_size": 16}},
    "at most 64 pixels": {"model": {"name": "small-cnn", "options": {"image_size": 64}}},
    "amdnet": {"model": "amdnet"},
    "cifar-fast": {"model": "cifar-fast"},
}


def measure(
    name: str, choice: Mapping[str, Any], archive: Path, *, seed: int
) -> tuple[float, float]:
    """Train a job; return its accuracy on the test pictures and the CPU seconds of training."""
    made = RENDERED[name]
    num_train = round(made.num_train * len(made.classes) * (1 - HELD_OUT))
    usual = ImageTraining().epochs
    assert usual is not None
    epochs = lengthen(usual, num_train=num_train) * choice.get(TIMES, 1)
    spec = {
        "task": "image-classification",
        "dataset": "bench",
        "model": choice.get("model", "auto"),
        "training": {"seed": seed, "epochs": epochs, **SMALL, **choice.get("training", {})},
    }
    with tempfile.TemporaryDirectory(prefix="bench-small-") as folder:
        root = Path(folder)
        job_dir = write_job(root, spec, archive_dataset(archive, root, side=made.side))
        start = time.process_time()
        resolved = train_job(job_dir)
        seconds = time.process_time() - start
        return score_images(job_dir, resolved, root / "model.onnx"), seconds


def score_baseline(archive: Path, *, side: int) -> tuple[float, float]:
    """Return the accuracy of the images' baseline on the test pictures, and its CPU seconds."""
    index = index_archive(archive, side=side)
    samples = index.splits["train"] + index.splits["test"]
    with zipfile.ZipFile(archive) as packed:
        opened = [Image.open(io.BytesIO(packed.read(sample.path))) for sample in samples]
        pixels = np.stack([np.asarray(image.convert("RGB")) for image in opened])
    labels, rows = read_labels(index), list_rows(index, ImageTraining())
    (baseline,) = list_baselines(pixels, labels, num_classes=len(index.classes))
    start = time.process_time()
    fitted = baseline.fit(rows["train"], rows["test"], MOST_SECONDS)
    seconds = time.process_time() - start
    return float((fitted.outputs.argmax(axis=1) == labels[rows["test"]]).mean()), seconds


def main(arguments: Sequence[str]) -> None:
    """Measure jobs one after the other, and print a line for each choice and set."""
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy small-sets")
    parser.add_argument("--set", action="append", choices=RENDERED, help="may be repeated")
    parser.add_argument("--choice", action="append", choices=CHOICES, help="may be repeated")
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args(arguments)
    print("| set | training images | choice | test accuracy | CPU s |\n| -- | -- | -- | -- | -- |")
    with tempfile.TemporaryDirectory(prefix="bench-small-") as folder:
        for name in asked.set or RENDERED:
            made, rng = RENDERED[name], np.random.default_rng(list(RENDERED).index(name))
            archive, num_test = Path(folder) / f"{name}.zip", NUM_TEST // len(made.classes)
            write_pictures(made, archive, num_test=num_test, rng=rng)
            print(_row(name, "baseline", [score_baseline(archive, side=made.side)]), flush=True)
            for choice in asked.choice or CHOICES:
                seeds = range(asked.seeds)
                found = [measure(name, CHOICES[choice], archive, seed=seed) for seed in seeds]
                print(_row(name, choice, found), flush=True)


def _row(name: str, choice: str, found: Sequence[tuple[float, float]]) -> str:
    accuracies, seconds = zip(*found, strict=True)
    made = RENDERED[name]
    shown = ", ".join(f"{accuracy:.1%}" for accuracy in accuracies)
    return (
        f"| {name} | {made.num_train * len(made.classes)} | {choice} "
        f"| {np.mean(accuracies):.1%} ({shown}) | {np.mean(seconds):.1f} |"
    )
