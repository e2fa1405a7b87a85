"""Detection: AP50 of a whole job on synthetic shapes, from random weights, and its int8 file.

500 images of 128 pixels with shapes in clutter (`examples/detection/make_shapes.py`): 450 for
training and validation, 50 for testing. The job has default settings, except for a fixed batch and
precision, so that the figure is the same on other machines. It is trained, exported, and scored on
its test split under ONNX Runtime, as float32 and as `int8-static`.
"""

import os
import tempfile
from pathlib import Path

from bench.isolated import print_results, run_isolated
from bench.machine import describe_device
from bench.result import Result, at_least, at_most
from bench.training.shape_sets import write_boxed
from bench.training.whole_job import train_job
from worker.process.memory import keep_freed_memory

NUM_TRAIN, NUM_TEST, SIDE = 450, 50, 128
TRAINING = {"batch_size": 16, "precision": "fp32", "compile": "off"}
LEAST_AP50 = 0.9
MOST_SECONDS = 300.0
MOST_DROP = 0.01
"""Largest loss of mean average precision by int8-static."""


def run() -> list[Result]:
    """Measure in a separate process."""
    return run_isolated("bench.training.detector")


def measure() -> list[Result]:
    """Train and export one job."""
    keep_freed_memory()
    with tempfile.TemporaryDirectory(prefix="bench-detector-") as folder:
        root = Path(folder)
        spec = {
            "task": "object-detection",
            "dataset": "shapes",
            "training": TRAINING,
            "export": {"variants": ["int8-static"]},
        }
        dataset = write_boxed(root / "shapes", num_train=NUM_TRAIN, num_test=NUM_TEST, side=SIDE)
        (root / "job").mkdir()
        trained = train_job(spec, dataset, root / "job")
    metrics = trained.metrics
    how = (
        f"AP {metrics['test/map_onnx']:.4f} (under torch {metrics['test/map']:.4f}), verified: "
        f"{trained.is_verified}; {trained.model_name}, {trained.training['epochs']} epochs, "
        f"{NUM_TRAIN} images of {SIDE} pixels, {describe_device()}"
    )
    spent = (
        f"{trained.cpu_seconds:.0f} s of processor time; rehearsal included; load average "
        f"{os.getloadavg()[1]:.0f}"
    )
    small = trained.variants["int8-static"]
    by_int8 = f"AP {small['metric']:.4f}, verified: {small['verified']}"
    return [
        at_least("detection: AP50 on synthetic shapes", metrics["test/map50"], "", LEAST_AP50, how),
        at_most("detection: training on them", trained.seconds, "s", MOST_SECONDS, spent),
        at_most("detection: drop of AP by int8-static", small["drop"], "", MOST_DROP, by_int8),
    ]


if __name__ == "__main__":
    print_results(measure())
