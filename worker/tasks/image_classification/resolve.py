"""Decides what each `auto` of an image-classification spec becomes; pure functions of facts."""

from redkiln.spec.quality import Quality
from redkiln.tasks.image_classification import ImageClassificationSpec
from worker.tasks.imagery.resolve import DataFacts, resolve_training
from worker.trainer.precision import DeviceFacts

LARGEST_AUTO_SIZE = 224
SMALLEST_SIZE = 8
GREY_MODEL_SIZE = 32
"""Largest side for which `auto` chooses mnist-cnn on grey images."""
SMALL_MODEL = "amdnet"


def resolve_spec(
    spec: ImageClassificationSpec, *, data: DataFacts, device: DeviceFacts
) -> ImageClassificationSpec:
    """Return the spec with most `auto`s resolved and a batch no larger than the training split.

    Batch size, memory layout and compilation stay at `auto`, because they are measured later.

    Raises:
        TrainingFailed: the parts of the spec contradict each other.
    """
    resolved = spec.model_copy(deep=True)
    options = resolved.model.options
    size = _image_size(data) if options.image_size == "auto" else options.image_size
    channels = data.channels if options.channels == "auto" else options.channels
    options.image_size, options.channels = size, channels
    if resolved.model.name == "auto" and resolved.model.source == "builtin":
        resolved.model.name = choose_model(
            spec.quality, device=device, size=size, channels=channels
        )
    if resolved.resources.engine == "auto":
        resolved.resources.engine = "torch"
    resolve_training(resolved.training, num_train=data.num_train, size=size, device=device)
    return resolved


def choose_model(quality: Quality, *, device: DeviceFacts, size: int, channels: int) -> str:
    """Choose the network of `model: auto`.

    A step of resnet18 takes many times as long as one of a small network. On a GPU that is seconds;
    on a CPU it can be hours, so there only `quality: best` chooses it.

    Args:
        quality: `quality` of the spec.
        device: Device to train on.
        size: Side of the images in pixels.
        channels: 1 for grey images, 3 for colour.
    """
    if quality == "best":
        return "resnet18"
    if channels == 1 and size <= GREY_MODEL_SIZE:
        return "mnist-cnn"
    return SMALL_MODEL if quality == "fast" or device.kind == "cpu" else "resnet18"


def _image_size(data: DataFacts) -> int:
    return max(SMALLEST_SIZE, min(LARGEST_AUTO_SIZE, max(data.image_size)))
