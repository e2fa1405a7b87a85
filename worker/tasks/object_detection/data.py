"""Opens the data of a detection job, and refuses what cannot be trained."""

from collections.abc import Sequence

import torch

from redkiln.annotations import AnnotatedImage, DetectionIndex
from redkiln.failure import FailureCode
from redkiln.predict.pixels import PixelFormat
from redkiln.tasks.object_detection import DetectorOptions, ObjectDetectionSpec
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.trainer.autotune.layout import FORMATS, choose_memory_format
from worker.trainer.detection.objects import Objects
from worker.trainer.detection.samples import DetectionSamples
from worker.trainer.devices import device_facts
from worker.trainer.images.decode.decoded_set import DecodedImages
from worker.trainer.images.located import LocatedDataset, decode_dataset, locate_dataset
from worker.trainer.images.pixel_set import PixelSet, split_rows


def locate_images(order: Order) -> LocatedDataset[DetectionIndex]:
    """Find an order's data set and read its index.

    Raises:
        TrainingFailed: the data set cannot be read, or has too little to learn or to score.
    """
    located = locate_dataset(order, DetectionIndex)
    splits = located.index.splits
    if not splits["test"]:
        message = "the data set has no test images; add some, because training scores the model"
        raise TrainingFailed(FailureCode.BAD_INPUT, message)
    if not _has_objects(splits["train"]):
        message = (
            "no training image has an object, so there is nothing to learn; add images with boxes, "
            "or check that the annotations name the images"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message)
    return located


def pixel_format_of(options: DetectorOptions) -> PixelFormat:
    """Return the pixel format that a resolved detector takes."""
    assert options.image_size != "auto"
    assert options.channels != "auto"
    return PixelFormat(size=options.image_size, channels=options.channels, resize=options.resize)


def count_train(index: DetectionIndex, spec: ObjectDetectionSpec) -> int:
    """Return how many images a job trains on."""
    return len(split_rows(index, validation_fraction=spec.training.validation_fraction)["train"])


def open_samples(
    order: Order,
    resolved: ObjectDetectionSpec,
    located: LocatedDataset[DetectionIndex],
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
    objects = Objects(located.index, pixel_format, device=device)
    decoded = decode_dataset(located, pixel_format, event_log=event_log)
    if training.memory_format == "auto":
        training.memory_format = choose_memory_format(
            device_facts(device, patches=order.patches), precision=training.precision
        )
    images = PixelSet(
        decoded,
        located.index,
        validation_fraction=training.validation_fraction,
        device=device,
        memory_format=FORMATS[training.memory_format],
        budget_bytes=order.limits.data_memory_bytes,
        say=event_log.message,
    )
    return decoded, DetectionSamples(images, objects)


def _has_objects(images: Sequence[AnnotatedImage]) -> bool:
    return any(not box.crowd for image in images for box in image.boxes)
