"""Checks, before training, that a network accepts the images it is to be trained on."""

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
"""Sides to try if images are too small for a network."""
COLOUR: Channels = 3
"""Channels to try if a network does not accept grey images."""
IMAGE_SIZE = "/model/options/image_size"


def try_images(
    network: nn.Module, model: Model, *, build_for: Callable[[int, Channels], nn.Module]
) -> None:
    """Pass two black images through a network, so that problems show before training.

    Args:
        network: The network, on the CPU.
        model: Model that the network was built from.
        build_for: Builds the network for images of another side and channels, to find which ones
            it would accept.

    Raises:
        TrainingFailed: the network does not accept such images.
    """
    size, channels = model.options.image_size, model.options.channels
    assert isinstance(size, int)
    assert isinstance(channels, int)
    was_training = network.training
    network.eval()
    try:
        _pass_through(network, SAMPLE, channels=channels, size=size)
    # Unsuitable images can cause any error in the code of so many architectures.
    except Exception as error:
        remedy, pointer = _find_remedy(build_for, channels=channels, size=size)
        plural = "" if channels == 1 else "s"
        message = (
            f"{model.name} does not accept images of {size}x{size} pixels with {channels} "
            f"channel{plural} ({type(error).__name__}: {error}); {remedy}"
        )
        raise _refused(message, pointer) from error
    finally:
        network.train(was_training)


def try_one_sample(network: nn.Module, model: Model) -> None:
    """Pass one black image through a copy in training mode: batch norm may get a single value.

    Raises:
        TrainingFailed: a single value per channel cannot be normalised.
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
    """Return what to change so that the network accepts the images, and its place in the spec."""
    larger = [side for side in COMMON_SIZES if side > size]
    fitting = _find_size(build_for, larger, channels=channels)
    if fitting is not None:
        return f"set model.options.image_size to {fitting}", IMAGE_SIZE
    # Some architectures accept only colour, whatever their configuration says.
    if channels != COLOUR:
        fitting = _find_size(build_for, [size, *larger], channels=COLOUR)
    if fitting is None:
        return "check model.config", IMAGE_SIZE
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
        except Exception:  # noqa: BLE001, S112 - this size does not work either
            continue
        return size
    return None


def _pass_through(network: nn.Module, num: int, *, channels: int, size: int) -> None:
    with torch.inference_mode():
        network(torch.zeros(num, channels, size, size))


def _refused(message: str, pointer: str) -> TrainingFailed:
    return TrainingFailed(FailureCode.BAD_INPUT, message, pointer=pointer)
