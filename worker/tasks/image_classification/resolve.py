"""Decides what each `auto` of an image-classification spec becomes; pure functions of facts."""

from redkiln.tasks.image_classification import ImageClassificationSpec
from worker.tasks.imagery.resolve import DataFacts, resolve_training
from worker.trainer.precision import DeviceFacts

LARGEST_AUTO_SIZE = 224
SMALLEST_SIZE = 8


def resolve_spec(
    spec: ImageClassificationSpec, *, data: DataFacts, device: DeviceFacts
) -> ImageClassificationSpec:
    """Return the spec with most `auto`s resolved and a batch no larger than the training split.

    Model, batch size, memory layout and compilation stay at `auto`, because they are measured
    later.

    Raises:
        TrainingFailed: the parts of the spec contradict each other.
    """
    resolved = spec.model_copy(deep=True)
    options = resolved.model.options
    size = _image_size(data) if options.image_size == "auto" else options.image_size
    channels = data.channels if options.channels == "auto" else options.channels
    options.image_size, options.channels = size, channels
    if resolved.resources.engine == "auto":
        resolved.resources.engine = "torch"
    resolve_training(resolved.training, num_train=data.num_train, size=size, device=device)
    return resolved


def _image_size(data: DataFacts) -> int:
    return max(SMALLEST_SIZE, min(LARGEST_AUTO_SIZE, max(data.image_size)))
