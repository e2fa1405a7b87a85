"""Opens the images of a job in the layout that suits its device."""

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from redkiln.datasets import ImageIndex
from redkiln.failure import FailureCode
from redkiln.predict.pixels import PixelFormat
from redkiln.spec.image_training import LaidOutTraining
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.trainer.autotune.layout import FORMATS, choose_memory_format
from worker.trainer.devices import device_facts
from worker.trainer.images.decode.decoded_set import DecodedImages
from worker.trainer.images.located import LocatedDataset, locate_dataset
from worker.trainer.images.pixel_set import PixelSet, Split, split_rows

Index = TypeVar("Index", bound=ImageIndex)
OfImages = TypeVar("OfImages", bound=PixelSet)


class Options(Protocol):
    """The options of a model that say which pixels it takes."""

    @property
    def image_size(self) -> int | Literal["auto"]:
        """Side of the square in pixels."""

    @property
    def channels(self) -> Literal[1, 3, "auto"]:
        """1 for grey, 3 for RGB."""

    @property
    def resize(self) -> Any:
        """How images of other shapes become square."""


def pixel_format_of(options: Options) -> PixelFormat:
    """Return the pixel format that a resolved model takes."""
    assert options.image_size != "auto"
    assert options.channels != "auto"
    return PixelFormat(size=options.image_size, channels=options.channels, resize=options.resize)


def locate_images(order: Order, index_class: type[Index]) -> LocatedDataset[Index]:
    """Find an order's data set and read its index.

    Raises:
        TrainingFailed: the data set cannot be read, or has no test images.
    """
    located = locate_dataset(order, index_class)
    if not located.index.splits["test"]:
        message = "the data set has no test images; add some, because training scores the model"
        raise TrainingFailed(FailureCode.BAD_INPUT, message)
    return located


def count_train(index: ImageIndex, training: LaidOutTraining) -> int:
    """Return how many images a job trains on."""
    return len(split_rows(index, validation_fraction=training.validation_fraction)["train"])


def list_rows(index: ImageIndex, training: LaidOutTraining) -> dict[Split, NDArray[np.int64]]:
    """Return the rows of each split as arrays."""
    rows = split_rows(index, validation_fraction=training.validation_fraction)
    return {split: np.array(places, dtype=np.int64) for split, places in rows.items()}


def open_pixels(
    kind: Callable[..., OfImages],
    decoded: DecodedImages,
    index: ImageIndex,
    order: Order,
    training: LaidOutTraining,
    *,
    device: torch.device,
    event_log: EventLog,
) -> OfImages:
    """Open decoded images, after choosing a memory layout that was left open.

    Args:
        kind: Class of the images: `PixelSet`, or one that adds to it.
        decoded: The decoded images.
        index: Their index.
        order: The job's order.
        training: Training section, which gets the layout.
        device: Device that batches are used on.
        event_log: The job's log.
    """
    if training.memory_format == "auto":
        training.memory_format = choose_memory_format(
            device_facts(device, patches=order.patches), precision=training.precision
        )
    return kind(
        decoded,
        index,
        validation_fraction=training.validation_fraction,
        device=device,
        memory_format=FORMATS[training.memory_format],
        budget_bytes=order.limits.data_memory_bytes,
        say=event_log.message,
    )


def put_on_device(model: nn.Module, training: LaidOutTraining, device: torch.device) -> nn.Module:
    """Move a network to its device, in the memory layout of the training."""
    assert training.memory_format != "auto"
    layout = FORMATS[training.memory_format]
    return model.to(device=device, memory_format=layout)  # type: ignore[call-overload, no-any-return]


def lay_out(model: nn.Module, images: PixelSet, memory_format: torch.memory_format) -> None:
    """Change the memory layout of a network and of its batches."""
    model.to(memory_format=memory_format)  # type: ignore[call-overload]
    images.memory_format = memory_format
