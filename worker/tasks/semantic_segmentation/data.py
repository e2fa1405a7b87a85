"""Opens the data of a segmentation job, and refuses what cannot be trained."""

import torch

from redkiln.annotations import SegmentationIndex
from redkiln.failure import FailureCode
from redkiln.tasks.semantic_segmentation import SemanticSegmentationSpec
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.tasks.imagery.opening import locate_images, open_pixels, pixel_format_of
from worker.trainer.images.decode.decoded_set import DecodedImages
from worker.trainer.images.located import LocatedDataset, decode_dataset
from worker.trainer.images.pixel_set import PixelSet
from worker.trainer.segmentation.masks import Masks, load_masks
from worker.trainer.segmentation.samples import SegmentationSamples


def locate_masks(order: Order) -> LocatedDataset[SegmentationIndex]:
    """Find an order's data set and read its index.

    Raises:
        TrainingFailed: the data set cannot be read, or has too little to learn or to score.
    """
    located = locate_images(order, SegmentationIndex)
    if not any(set(image.labels) - {0} for image in located.index.splits["train"]):
        message = (
            "no training image has a pixel of a class other than the first one, so there is "
            "nothing to learn; add images with masks"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message)
    return located


def open_samples(
    order: Order,
    resolved: SemanticSegmentationSpec,
    located: LocatedDataset[SegmentationIndex],
    *,
    device: torch.device,
    event_log: EventLog,
) -> tuple[DecodedImages, SegmentationSamples]:
    """Decode the images once, and open them with their masks in the layout that suits the device.

    The memory layout of the spec is resolved.

    Raises:
        TrainingFailed: a file cannot be decoded.
    """
    training, pixel_format = resolved.training, pixel_format_of(resolved.model.options)
    decoded = decode_dataset(located, pixel_format, event_log=event_log)
    images = open_pixels(
        PixelSet, decoded, located.index, order, training, device=device, event_log=event_log
    )
    masks = load_masks(located.index, pixel_format, folder=order.paths.cache_dir)
    return decoded, SegmentationSamples(images, Masks(masks, device=device))
