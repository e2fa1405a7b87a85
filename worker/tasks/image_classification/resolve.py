"""Decides what each `auto` of an image-classification spec becomes; pure functions of facts."""

from dataclasses import dataclass
from typing import Literal

from redkiln.spec.schedule import FALLING_WARMUP, warmup_fraction
from redkiln.tasks.image_classification import ImageClassificationSpec
from worker.trainer.autotune.batch_size import reference_batch_size
from worker.trainer.precision import DeviceFacts, resolve_precision

LARGEST_AUTO_SIZE = 224
SMALLEST_SIZE = 8


@dataclass(frozen=True)
class DataFacts:
    """Facts of the data set that decide. `image_size` is (width, height) of most images."""

    image_size: tuple[int, int]
    channels: Literal[1, 3]
    num_train: int


def resolve_spec(
    spec: ImageClassificationSpec, *, data: DataFacts, device: DeviceFacts
) -> ImageClassificationSpec:
    """Return the spec with most `auto`s resolved and a batch no larger than the training split.

    Model, batch size, memory layout and compilation stay at `auto`, because they are measured
    later.

    Raises:
        TrainingFailed: the parts of the spec contradict each other.
    """
    training, options = spec.training, spec.model.options
    size = _image_size(data) if options.image_size == "auto" else options.image_size
    channels = data.channels if options.channels == "auto" else options.channels
    is_auto = training.batch_size == "auto"
    batch_size = (
        reference_batch_size(data.num_train)
        if training.batch_size == "auto"
        else training.batch_size
    )
    batch_size = min(batch_size, data.num_train)
    resolved = spec.model_copy(deep=True)
    if resolved.resources.engine == "auto":
        resolved.resources.engine = "torch"
    resolved.model.options.image_size = size
    resolved.model.options.channels = channels
    resolved.training.batch_size = "auto" if is_auto else batch_size
    resolved.training.accumulation = min(training.accumulation, batch_size)
    resolved.training.schedule.warmup_fraction = warmup_fraction(
        training.schedule, falling=FALLING_WARMUP
    )
    pixels = batch_size // resolved.training.accumulation * size**2
    resolved.training.precision = resolve_precision(
        training.precision, device=device, pixels=pixels
    )
    return resolved


def _image_size(data: DataFacts) -> int:
    return max(SMALLEST_SIZE, min(LARGEST_AUTO_SIZE, max(data.image_size)))
