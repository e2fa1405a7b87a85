"""Detection: throughput of a job's own loop relative to its bare step.

The job has the task's default augmentation, mosaics and boxes included; its steps read the decoded
images, change them and make targets. The bare step runs the same detector and loss on one batch
that stays on the device. The two alternate, so that other load affects both.
"""

import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path

import torch

from bench.isolated import print_results, run_isolated
from bench.machine import DEVICE, describe_device
from bench.result import Result, at_least
from bench.training.job_loop import JobLoop, write_job
from bench.training.shape_sets import write_boxed
from bench.turns import Chunks, alternate, compare
from redkiln.tasks.object_detection import ObjectDetectionSpec
from worker.process.memory import keep_freed_memory
from worker.trainer.devices import autocast_of, synchronize
from worker.trainer.inputs import as_parts
from worker.trainer.optim.optimizer import build_optimizer

NUM_IMAGES, SIDE, BATCH = 2000, 128, 16
PIECES = 5
TARGET = 0.9


def run() -> list[Result]:
    """Measure in a separate process."""
    return run_isolated("bench.training.detection")


def measure() -> list[Result]:
    """Compare a job's loop with its bare step."""
    keep_freed_memory()
    with tempfile.TemporaryDirectory(prefix="bench-detection-") as folder:
        root = Path(folder)
        training = {"steps": 1_000_000, "batch_size": BATCH, "compile": "off"}
        spec = {"task": "object-detection", "dataset": "shapes", "training": training}
        dataset = write_boxed(root / "shapes", num_train=NUM_IMAGES - 1, num_test=1, side=SIDE)
        with closing(JobLoop(write_job(root, spec, dataset))) as redkiln:
            steps = redkiln.setup.plan.steps_per_epoch
            seconds = alternate(
                {"bare": bare_chunks(redkiln), "redkiln": redkiln},
                steps={"bare": steps, "redkiln": steps},
                pieces=PIECES,
            )
            resolved = redkiln.setup.spec
            assert isinstance(resolved, ObjectDetectionSpec)
    ratio, pairs = compare(seconds["bare"], seconds["redkiln"])
    rate = steps * BATCH / statistics.median(seconds["redkiln"])
    how = (
        f"{rate:,.0f} images/s; pairs of {steps} steps: {pairs}; {resolved.model.name}, batch "
        f"{BATCH}, {SIDE} pixels, default augmentation, {resolved.training.precision}, "
        f"{describe_device()}"
    )
    name = "detection: training throughput over the bare step"
    return [at_least(name, ratio, "ratio", TARGET, how)]


def bare_chunks(job: JobLoop) -> Chunks:
    """Build a step of the job's own detector and loss on one batch that stays on the device."""
    setup = job.setup
    training = setup.spec.training
    inputs, targets = setup.batches.get(0, 0)
    optimizer = build_optimizer(setup.model, training.optimizer)

    def chunk(steps: int) -> float:
        torch.set_num_threads(job.threads)
        start = time.perf_counter()
        for _ in range(steps):
            with autocast_of(DEVICE, training.precision):
                outputs = setup.model(*as_parts(inputs))
            setup.loss(outputs.float(), targets).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        synchronize(DEVICE)
        return time.perf_counter() - start

    return chunk


if __name__ == "__main__":
    print_results(measure())
