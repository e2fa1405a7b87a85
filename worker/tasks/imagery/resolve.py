"""Decides what `auto` becomes in the training section of every task with images."""

from dataclasses import dataclass
from typing import Literal

from redkiln.spec.dense_models import SIZE_STEP
from redkiln.spec.image_training import LaidOutTraining
from redkiln.spec.schedule import FALLING_WARMUP, warmup_fraction
from worker.process.event_log import EventLog
from worker.trainer.autotune.batch_size import reference_batch_size
from worker.trainer.precision import DeviceFacts, resolve_precision

SMALLEST_AUTO_SIZE = 64
LARGEST_AUTO_SIZE = {"cpu": 320}
"""Largest side by device of a dense network; a step takes time in proportion to its square."""
LARGEST_ON_GPU = 640


@dataclass(frozen=True)
class DataFacts:
    """Facts of the data set that decide. `image_size` is (width, height) of most images."""

    image_size: tuple[int, int]
    channels: Literal[1, 3]
    num_train: int


def resolve_training(
    training: LaidOutTraining, *, num_train: int, size: int, device: DeviceFacts
) -> None:
    """Resolve the precision and the schedule, and limit the batch to the training split.

    Batch size, memory layout and compilation stay at `auto`, because they are measured later.

    Args:
        training: Training section, which is changed.
        num_train: Images in the training split.
        size: Side of the images in pixels.
        device: Device to train on.

    Raises:
        TrainingFailed: the device cannot train in the precision.
    """
    asked = training.batch_size
    batch_size = min(reference_batch_size(num_train) if asked == "auto" else asked, num_train)
    training.batch_size = "auto" if asked == "auto" else batch_size
    training.accumulation = min(training.accumulation, batch_size)
    training.schedule.warmup_fraction = warmup_fraction(training.schedule, falling=FALLING_WARMUP)
    pixels = batch_size // training.accumulation * size**2
    training.precision = resolve_precision(training.precision, device=device, pixels=pixels)


def choose_dense_size(image_size: tuple[int, int], *, device: DeviceFacts) -> int:
    """Choose the side of a dense network's square: that of the images, as a multiple of a stride.

    Args:
        image_size: (width, height) of most images.
        device: Device to train on.
    """
    largest = LARGEST_AUTO_SIZE.get(device.kind, LARGEST_ON_GPU)
    rounded = -(-max(image_size) // SIZE_STEP) * SIZE_STEP
    return max(SMALLEST_AUTO_SIZE, min(largest, rounded))


def warn_of_changes(
    asked: LaidOutTraining, resolved: LaidOutTraining, *, kind: str, event_log: EventLog
) -> None:
    """Warn of a batch that was reduced, and of a precision that is slow.

    Args:
        asked: Training section of the spec.
        resolved: The same, resolved.
        kind: Type of the device, as torch names it.
        event_log: The job's log.
    """
    if asked.batch_size not in ("auto", resolved.batch_size):
        message = (
            f"batch_size is {resolved.batch_size}, not {asked.batch_size}: the training split has "
            "no more images"
        )
        event_log.warning("batch_size_reduced", message)
    if resolved.precision == "fp16" and kind == "cpu":
        message = "fp16 on a CPU takes many times as long as fp32; use fp32, or auto"
        event_log.warning("fp16_on_cpu", message)
