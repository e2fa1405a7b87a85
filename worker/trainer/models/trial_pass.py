"""Whether a network takes the images that it is to be trained on, tried before training."""

import copy
from collections.abc import Callable

import torch
from torch import nn

from redkiln.failure import FailureCode
from redkiln.image_models import Model
from worker.trainer.failed import TrainingFailed

SAMPLE = 2
"""Images of the trial pass."""
COMMON_SIZES = (32, 48, 64, 96, 112, 128, 160, 192, 224, 256, 288, 320, 384, 448, 512)
"""Sides that are tried where an image is too small for a network."""


def try_images(network: nn.Module, model: Model, *, build_for: Callable[[int], nn.Module]) -> None:
    """Hand two black images through, so that what does not fit is known before training.

    Args:
        network: on the CPU.
        model: that it is the network of.
        build_for: the network for images of another side, to find one that would do.

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
        larger = _find_larger_size(build_for, channels=channels, size=size)
        remedy = f"set model.options.image_size to {larger}" if larger else "look at model.config"
        message = (
            f"{model.name} does not take images of {size}x{size} pixels with {channels} channels "
            f"({type(error).__name__}: {error}); {remedy}"
        )
        raise _refused(message, "/model/options/image_size") from error
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
            f"{model.name} on images of {size} pixels needs at least 2 samples in a micro step, "
            f"and for each device ({error}); raise training.batch_size or lower "
            "training.accumulation"
        )
        raise _refused(message, "/training/batch_size") from error


def _find_larger_size(
    build_for: Callable[[int], nn.Module], *, channels: int, size: int
) -> int | None:
    for larger in (side for side in COMMON_SIZES if side > size):
        try:
            with torch.device("meta"):
                _pass_through(build_for(larger).eval(), SAMPLE, channels=channels, size=larger)
        except Exception:  # noqa: BLE001, S112 - that one neither
            continue
        return larger
    return None


def _pass_through(network: nn.Module, num: int, *, channels: int, size: int) -> None:
    with torch.inference_mode():
        network(torch.zeros(num, channels, size, size))


def _refused(message: str, pointer: str) -> TrainingFailed:
    return TrainingFailed(FailureCode.BAD_INPUT, message, pointer=pointer)
