"""Decides what each `auto` of an object-detection spec becomes; pure functions of facts."""

from dataclasses import dataclass
from typing import Literal

from redkiln.spec.quality import Quality
from redkiln.spec.schedule import FALLING_WARMUP, warmup_fraction
from redkiln.tasks.object_detection import SIZE_STEP, DetectorName, ObjectDetectionSpec
from worker.trainer.autotune.batch_size import reference_batch_size
from worker.trainer.precision import DeviceFacts, resolve_precision

SMALLEST_AUTO_SIZE = 64
LARGEST_AUTO_SIZE = {"cpu": 320}
"""Largest side by device; a step takes time in proportion to its square."""
LARGEST_ON_GPU = 640


@dataclass(frozen=True)
class DataFacts:
    """Facts of the data set that decide. `image_size` is (width, height) of most images."""

    image_size: tuple[int, int]
    channels: Literal[1, 3]
    num_train: int


def resolve_spec(
    spec: ObjectDetectionSpec, *, data: DataFacts, device: DeviceFacts
) -> ObjectDetectionSpec:
    """Return the spec with most `auto`s resolved and a batch no larger than the training split.

    Batch size, memory layout and compilation stay at `auto`, because they are measured later.

    Raises:
        TrainingFailed: the parts of the spec contradict each other.
    """
    resolved = spec.model_copy(deep=True)
    training, options = resolved.training, resolved.model.options
    if options.image_size == "auto":
        options.image_size = choose_image_size(data.image_size, device=device)
    if options.channels == "auto":
        options.channels = data.channels
    if resolved.model.name == "auto":
        resolved.model.name = choose_detector(spec.quality, device=device)
    is_auto = training.batch_size == "auto"
    wanted = (
        reference_batch_size(data.num_train)
        if training.batch_size == "auto"
        else training.batch_size
    )
    batch_size = min(wanted, data.num_train)
    training.batch_size = "auto" if is_auto else batch_size
    training.accumulation = min(training.accumulation, batch_size)
    training.schedule.warmup_fraction = warmup_fraction(training.schedule, falling=FALLING_WARMUP)
    pixels = batch_size // training.accumulation * options.image_size**2
    training.precision = resolve_precision(training.precision, device=device, pixels=pixels)
    return resolved


def choose_detector(quality: Quality, *, device: DeviceFacts) -> DetectorName:
    """Choose the size of `model: auto`."""
    if device.kind == "cpu":
        return "dense-small" if quality == "best" else "dense-nano"
    by_quality: dict[Quality, DetectorName] = {
        "fast": "dense-nano",
        "balanced": "dense-small",
        "best": "dense-medium",
    }
    return by_quality[quality]


def choose_image_size(image_size: tuple[int, int], *, device: DeviceFacts) -> int:
    """Choose the side of the square: that of the images, as a multiple of the coarsest stride."""
    largest = LARGEST_AUTO_SIZE.get(device.kind, LARGEST_ON_GPU)
    rounded = -(-max(image_size) // SIZE_STEP) * SIZE_STEP
    return max(SMALLEST_AUTO_SIZE, min(largest, rounded))
