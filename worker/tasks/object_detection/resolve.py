"""Decides what each `auto` of an object-detection spec becomes; pure functions of facts."""

from typing import TypeVar

from redkiln.spec.quality import Quality
from redkiln.tasks.object_detection import DetectorName, DetectorSpec
from worker.tasks.imagery.resolve import DataFacts, choose_dense_size, resolve_training
from worker.trainer.precision import DeviceFacts

OfSpec = TypeVar("OfSpec", bound=DetectorSpec)


def resolve_spec(spec: OfSpec, *, data: DataFacts, device: DeviceFacts) -> OfSpec:
    """Return the spec with most `auto`s resolved and a batch no larger than the training split.

    Batch size, memory layout and compilation stay at `auto`, because they are measured later.

    Raises:
        TrainingFailed: the parts of the spec contradict each other.
    """
    resolved = spec.model_copy(deep=True)
    options = resolved.model.options
    if options.image_size == "auto":
        options.image_size = choose_dense_size(data.image_size, device=device)
    if options.channels == "auto":
        options.channels = data.channels
    if resolved.model.name == "auto":
        resolved.model.name = choose_detector(spec.quality, device=device)
    resolve_training(
        resolved.training, num_train=data.num_train, size=options.image_size, device=device
    )
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
