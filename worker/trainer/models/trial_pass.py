"""Whether a network takes the images that it is to be trained on, tried before training."""

import copy
from collections.abc import Callable, Iterable
from typing import Literal

import torch
from torch import nn

from redkiln.failure import FailureCode
from redkiln.spec.image_models import Model
from worker.process.failed import TrainingFailed

Channels = Literal[1, 3]

SAMPLE = 2
"""Images of the trial pass."""
COMMON_SIZES = (32, 48, 64, 96, 112, 128, 160, 192, 224, 256, 288, 320, 384, 448, 512)
"""Sides that are tried where an image is too small for a network."""
COLOUR: Channels = 3
"""Channels that are tried where a network does not take grey images."""
IMAGE_SIZE = "/model/options/image_size"


def try_images(
    network: nn.Module, model: Model, *, build_for: Callable[[int, Channels], nn.Module]
) -> None:
    """Hand two black images through, so that what does not fit is known before training.

    Args:
        network: on the CPU.
        model: that it is the network of.
        build_for: the network for images of another side and other channels, to find what would
            do.

    Raises:
        TrainingFailed: the network does not take such images.
    """
    size, channels = model.options.image_size, model.options.channels
    assert isinstance(size, int)
    assert isinstance(channels, int)
    was_training = network.training
    network.eval()
    try:
        _pass_through(network, SAMPLE, channels=channels, size=size)
    # Whatever such images lead to in the code of so many architectures.
    except Exception as error:
        remedy, pointer = _find_remedy(build_for, channels=channels, size=size)
        plural = "" if channels == 1 else "s"
        message = (
            f"{model.name} does not take images of {size}x{size} pixels with {channels} "
            f"channel{plural} ({type(error).__name__}: {error}); {remedy}"
        )
        raise _refused(message, pointer) from error
    finally:
        network.train(was_training)


def try_one_sample(network: nn.Module, model: Model) -> None:
    """Hand one black image through a copy that trains: batch norm may have one pixel of it left.

    Raises:
        TrainingFailed: what is left cannot be normalised.
    """
    size, channels = model.options.image_size, model.options.channels
    assert isinstance(size, int)
    assert isinstance(channels, int)
    try:
        _pass_through(copy.deepcopy(network).train(), 1, channels=channels, size=size)
    except ValueError as error:
        message = (
            f"{model.name} on images of {size} pixels needs at least 2 samples in a micro step of "
            f"each process ({error}); raise training.batch_size or lower training.accumulation"
        )
        raise _refused(message, "/training/batch_size") from error


def _find_remedy(
    build_for: Callable[[int, Channels], nn.Module], *, channels: Channels, size: int
) -> tuple[str, str]:
    """What to change for a network that would take the images, and the place of it in the spec."""
    larger = [side for side in COMMON_SIZES if side > size]
    fitting = _find_size(build_for, larger, channels=channels)
    if fitting is not None:
        return f"set model.options.image_size to {fitting}", IMAGE_SIZE
    # Some architectures are made for colour alone, whatever their configuration says.
    if channels != COLOUR:
        fitting = _find_size(build_for, [size, *larger], channels=COLOUR)
    if fitting is None:
        return "look at model.config", IMAGE_SIZE
    also = "" if fitting == size else f" and model.options.image_size to {fitting}"
    return f"set model.options.channels to {COLOUR}{also}", "/model/options/channels"


def _find_size(
    build_for: Callable[[int, Channels], nn.Module], sizes: Iterable[int], *, channels: Channels
) -> int | None:
    for size in sizes:
        try:
            with torch.device("meta"):
                network = build_for(size, channels).eval()
                _pass_through(network, SAMPLE, channels=channels, size=size)
        except Exception:  # noqa: BLE001, S112 - that one neither
            continue
        return size
    return None


def _pass_through(network: nn.Module, num: int, *, channels: int, size: int) -> None:
    with torch.inference_mode():
        network(torch.zeros(num, channels, size, size))


def _refused(message: str, pointer: str) -> TrainingFailed:
    return TrainingFailed(FailureCode.BAD_INPUT, message, pointer=pointer)
