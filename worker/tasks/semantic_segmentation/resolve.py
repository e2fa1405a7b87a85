"""Decides what each `auto` of a semantic-segmentation spec becomes; pure functions of facts."""

from redkiln.spec.quality import Quality
from redkiln.tasks.semantic_segmentation import SegmenterName, SemanticSegmentationSpec
from worker.tasks.imagery.resolve import DataFacts, choose_dense_size, resolve_training
from worker.trainer.precision import DeviceFacts


def resolve_spec(
    spec: SemanticSegmentationSpec, *, data: DataFacts, device: DeviceFacts
) -> SemanticSegmentationSpec:
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
        resolved.model.name = choose_segmenter(spec.quality, device=device)
    resolve_training(
        resolved.training, num_train=data.num_train, size=options.image_size, device=device
    )
    return resolved


def choose_segmenter(quality: Quality, *, device: DeviceFacts) -> SegmenterName:
    """Choose the size of `model: auto`."""
    if device.kind == "cpu":
        return "unet-small" if quality == "best" else "unet-nano"
    by_quality: dict[Quality, SegmenterName] = {
        "fast": "unet-nano",
        "balanced": "unet-small",
        "best": "unet-medium",
    }
    return by_quality[quality]
