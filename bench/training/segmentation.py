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

from bench.isolated import print_results, run_isolated
from bench.machine import describe_device
from bench.result import Result, at_least
from bench.training.shape_sets import write_masked
from bench.training.whole_job import train_job
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
        dataset = write_masked(root / "shapes", num_train=NUM_TRAIN, num_test=NUM_TEST, side=SIDE)
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


if __name__ == "__main__":
    print_results(measure())
