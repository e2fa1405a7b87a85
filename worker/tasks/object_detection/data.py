"""Opens the data of a detection job, and refuses what cannot be trained."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from redkiln.annotations import AnnotatedImage, DetectionIndex
from redkiln.failure import FailureCode
from redkiln.tasks.object_detection import Detector, DetectorSpec
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.tasks.imagery.opening import locate_images, open_pixels, pixel_format_of
from worker.trainer.detection.objects import Objects
from worker.trainer.detection.samples import DetectionSamples
from worker.trainer.images.decode.decoded_set import DecodedImages
from worker.trainer.images.located import LocatedDataset, decode_dataset
from worker.trainer.images.pixel_set import PixelSet
from worker.trainer.queries.normalisation import replace_normalisation


def locate_objects(order: Order) -> LocatedDataset[DetectionIndex]:
    """Find an order's data set and read its index.

    Raises:
        TrainingFailed: the data set cannot be read, or has too little to learn or to score.
    """
    located = locate_images(order, DetectionIndex)
    if not _has_objects(located.index.splits["train"]):
        message = (
            "no training image has an object, so there is nothing to learn; add images with boxes, "
            "or check that the annotations name the images"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message)
    return located


def open_samples(
    order: Order,
    resolved: DetectorSpec,
    located: LocatedDataset[DetectionIndex],
    kind: type[Objects] = Objects,
    *,
    device: torch.device,
    event_log: EventLog,
) -> tuple[DecodedImages, DetectionSamples]:
    """Decode the images once, and open them in the layout that suits the device.

    The memory layout of the spec is resolved.

    Raises:
        TrainingFailed: a file cannot be decoded, or an image has too many objects.
    """
    training, pixel_format = resolved.training, pixel_format_of(resolved.model.options)
    objects = kind(located.index, pixel_format, device=device)
    decoded = decode_images(located, resolved.model, event_log=event_log)
    images = open_pixels(
        PixelSet, decoded, located.index, order, training, device=device, event_log=event_log
    )
    return decoded, DetectionSamples(images, objects)


def decode_images(
    located: LocatedDataset[DetectionIndex], model: Detector, *, event_log: EventLog
) -> DecodedImages:
    """Return the decoded images with the normalisation that a resolved model is trained with.

    Raises:
        TrainingFailed: a file cannot be decoded.
    """
    decoded = decode_dataset(located, pixel_format_of(model.options), event_log=event_log)
    if model.source == "builtin":
        return decoded
    return replace(decoded, facts=replace_normalisation(decoded.facts, model.config))


def _has_objects(images: Sequence[AnnotatedImage]) -> bool:
    return any(not box.crowd for image in images for box in image.boxes)
