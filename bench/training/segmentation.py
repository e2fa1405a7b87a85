"""Segmentation: mean IoU of a whole job on synthetic shapes, from random weights.

500 images of 128 pixels with shapes in clutter (`examples/detection/make_shapes.py`): 450 for
training and validation, 50 for testing. The job has default settings, except for a fixed batch and
precision, so that the figure is the same on other machines. It is trained, exported, and scored on
its test split under ONNX Runtime.
"""

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.isolated import print_results, run_isolated
from bench.machine import describe_device
from bench.result import Result, at_least
from bench.training.whole_job import train_job
from examples.detection.make_shapes import CLASSES, draw_images, draw_mask
from redkiln.annotations import MaskedImage, SegmentationIndex
from redkiln.datasets import rank_within_classes
from redkiln.predict.masks.coding import pack_mask
from worker.jobdir import LocalDataset
from worker.process.memory import keep_freed_memory

NUM_TRAIN, NUM_TEST, SIDE = 450, 50, 128
TRAINING = {"batch_size": 16, "precision": "fp32", "compile": "off"}
TARGET = 0.9


def run() -> list[Result]:
    """Measure in a separate process."""
    return run_isolated("bench.training.segmentation")


def measure() -> list[Result]:
    """Train and export one job."""
    keep_freed_memory()
    with tempfile.TemporaryDirectory(prefix="bench-segmentation-") as folder:
        root = Path(folder)
        spec = {"task": "semantic-segmentation", "dataset": "shapes", "training": TRAINING}
        dataset = write_masked(root / "shapes")
        (root / "job").mkdir()
        before = time.process_time()
        trained = train_job(spec, dataset, root / "job")
        cpu = time.process_time() - before
    metrics = trained.metrics
    how = (
        f"test Dice {metrics['test/dice']:.4f}, right pixels {metrics['test/pixel_accuracy']:.4f}, "
        f"mean IoU under torch {metrics['test/miou']:.4f}, verified: {trained.is_verified}; "
        f"{trained.model_name}, {NUM_TRAIN} images of {SIDE} pixels, {cpu:.0f} CPU s with the "
        f"export, {trained.seconds:.0f} s for training at a load average of "
        f"{os.getloadavg()[1]:.0f}, {describe_device()}"
    )
    name = "segmentation: mean IoU on synthetic shapes"
    return [at_least(name, metrics["test/miou_onnx"], "", TARGET, how)]


def write_masked(
    folder: Path, *, num_train: int = NUM_TRAIN, num_test: int = NUM_TEST, side: int = SIDE
) -> LocalDataset:
    """Write images of shapes with their index."""
    folder.mkdir()
    images = []
    for number, (image, shapes) in enumerate(draw_images(num_train + num_test, size=side)):
        image.save(folder / f"{number}.png")
        mask = np.asarray(draw_mask(shapes, size=side))
        labels = np.unique(mask).tolist()
        images.append(
            MaskedImage(
                path=f"{number}.png",
                width=side,
                height=side,
                label=labels[-1],
                labels=labels,
                mask=pack_mask(mask),
                mask_size=(side, side),
                rank=0,
            )
        )
    train, test = images[:num_train], images[num_train:]
    ranks = rank_within_classes([image.stratum for image in train], seed=0)
    for image, rank in zip(train, ranks, strict=True):
        image.rank = rank
    index = SegmentationIndex(
        mask_format="png",
        classes=["background", *CLASSES],
        splits={"train": train, "test": test},
        image_size=(side, side),
        mixed_sizes=False,
        channels=3,
        seed=0,
    )
    (folder / "index.json").write_text(index.model_dump_json())
    return LocalDataset(
        name="shapes",
        kind="folder",
        path=str(folder),
        index_path=str(folder / "index.json"),
        fingerprint="masked shapes",
    )


if __name__ == "__main__":
    print_results(measure())
