"""What each `auto` of an image-classification spec becomes: pure decisions on facts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from redkiln.failure import FailureCode
from redkiln.hardware import Precision
from redkiln.spec import Training
from redkiln.tasks.image_classification import ImageClassificationSpec, MemoryFormat
from worker.trainer.failed import TrainingFailed
from worker.trainer.trials.batch_size import SMALLEST as SMALLEST_BATCH
from worker.trainer.trials.batch_size import reference_batch_size
from worker.trainer.updates.schedule import warmup_fraction

LARGEST_AUTO_SIZE = 224
SMALLEST_SIZE = 8
ONE_PIXEL_LEFT = {"resnet18": 8, "cifar-fast": 16}
"""Largest side of which a model's last stage keeps one pixel."""
GREY_MODEL_SIZE = 32
"""Largest side for which `auto` takes mnist-cnn, on grey images."""

CPU_BF16_PIXELS = 8192
"""Of a micro step, from which on a CPU with bf16 instructions is faster in bf16. A step's time over
that in fp32: 1.09 for 512 pixels (mnist-cnn, batch 8, 8x8), 0.98 for 6272 (batch 8, 28x28), 0.74
for 8192 (amdnet, batch 8, 32x32), 0.76 for 100,352 (mnist-cnn, batch 128, 28x28); 2 cores of an AMD
EPYC, torch 2.13, interleaved steps on a busy machine, November 2026."""


@dataclass(frozen=True)
class DataFacts:
    """What of the data set decides. `image_size` is (width, height) of most images."""

    image_size: tuple[int, int]
    channels: Literal[1, 3]
    num_train: int


@dataclass(frozen=True)
class DeviceFacts:
    """What of the device decides.

    Attributes:
        kind: torch's device type.
        has_bf16: whether it has bf16 arithmetic; older CPUs and NVIDIA's older GPUs emulate it.
        preferred: what `auto` becomes; by `has_bf16` where it is None.
        denied: types that are not trained in, each with the reason.
        suggests_channels_last: whether MIOpen was told to take that layout as it is.
    """

    kind: str
    has_bf16: bool = False
    is_hip: bool = False
    preferred: Precision | None = None
    denied: Mapping[str, str] = field(default_factory=dict)
    suggests_channels_last: bool = False


@dataclass(frozen=True)
class Plan:
    """How long training is. An epoch is `steps_per_epoch` full batches."""

    steps_per_epoch: int
    steps: int

    @property
    def epochs(self) -> int:
        """Epochs begun, the last one perhaps not finished."""
        return math.ceil(self.steps / self.steps_per_epoch)


def resolve_spec(
    spec: ImageClassificationSpec, *, data: DataFacts, device: DeviceFacts
) -> ImageClassificationSpec:
    """The spec with the batch no larger than the train split, and little left at `auto`.

    What is measured later is: the batch size, the layout, and whether the model is compiled.

    Raises:
        TrainingFailed: the parts of the spec contradict each other.
    """
    training, options = spec.training, spec.model.options
    size = _image_size(data) if options.image_size == "auto" else options.image_size
    channels = data.channels if options.channels == "auto" else options.channels
    is_auto = training.batch_size == "auto"
    batch_size = (
        reference_batch_size(data.num_train)
        if training.batch_size == "auto"
        else training.batch_size
    )
    batch_size = min(batch_size, data.num_train)
    name = spec.model.name
    if name == "auto" and spec.model.source == "builtin":
        name = "mnist-cnn" if channels == 1 and size <= GREY_MODEL_SIZE else "resnet18"
    resolved = spec.model_copy(deep=True)
    resolved.model.name = name
    resolved.model.options.image_size = size
    resolved.model.options.channels = channels
    resolved.training.batch_size = "auto" if is_auto else batch_size
    resolved.training.accumulation = min(training.accumulation, batch_size)
    resolved.training.schedule.warmup_fraction = warmup_fraction(training.schedule)
    pixels = batch_size // resolved.training.accumulation * size**2
    resolved.training.precision = resolve_precision(
        training.precision, device=device, pixels=pixels
    )
    smallest = min(SMALLEST_BATCH, data.num_train) if is_auto else batch_size
    _check_batch_norm(resolved, size=size, batch_size=smallest)
    return resolved


def resolve_precision(
    wanted: Literal["auto"] | Precision, *, device: DeviceFacts, pixels: int | None = None
) -> Precision:
    """The type of the forward pass.

    Args:
        wanted: by the spec.
        device: that it runs on.
        pixels: in a micro step's images, where that is known.

    Raises:
        TrainingFailed: the GPU has no such arithmetic, whatever torch says.
    """
    if wanted == "auto":
        is_small = device.kind == "cpu" and pixels is not None and pixels < CPU_BF16_PIXELS
        by_torch: Precision = "bf16" if device.has_bf16 and not is_small else "fp32"
        return device.preferred or by_torch
    if wanted not in device.denied:
        return wanted
    message = (
        f"{device.denied[wanted]}; write precision auto, which is {device.preferred or 'fp32'} "
        "here, or fp32"
    )
    raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/training/precision")


def deny(device: DeviceFacts, denied: Mapping[str, str]) -> DeviceFacts:
    """The device without the types that it was found to compute wrongly, each with the reason."""
    wrong = {name: why for name, why in denied.items() if name in get_args(Precision)}
    if not wrong:
        return device
    chosen = resolve_precision("auto", device=device)
    return replace(
        device,
        has_bf16=device.has_bf16 and "bf16" not in wrong,
        preferred="fp32" if chosen in wrong else chosen,
        denied={**device.denied, **wrong},
    )


def plan_training(training: Training, *, num_train: int) -> Plan:
    """The number of steps of a resolved spec."""
    assert training.batch_size != "auto"
    steps_per_epoch = num_train // training.batch_size
    if training.steps is not None:
        return Plan(steps_per_epoch, training.steps)
    assert training.epochs is not None
    return Plan(steps_per_epoch, training.epochs * steps_per_epoch)


def choose_memory_format(device: DeviceFacts, *, precision: str) -> MemoryFormat:
    """How images and convolutions lie in memory, where nothing was measured (`layout`).

    On a CPU channels-last takes 0.73 of the time of the usual layout (amdnet, batch 64, 32x32,
    2 cores of an EPYC 7003, torch 2.13, medians of 60 interleaved steps, November 2026), and
    NVIDIA's half-precision kernels want it. MIOpen's do where a patch says so (`channels_last`).
    """
    is_wanted = device.suggests_channels_last or not device.is_hip
    if device.kind == "cpu" or (precision != "fp32" and is_wanted):
        return "channels_last"
    return "contiguous"


def _image_size(data: DataFacts) -> int:
    return max(SMALLEST_SIZE, min(LARGEST_AUTO_SIZE, max(data.image_size)))


def _check_batch_norm(spec: ImageClassificationSpec, *, size: int, batch_size: int) -> None:
    micro = batch_size // spec.training.accumulation
    # Its last stage is then one pixel of one sample, which batch norm cannot normalise.
    if micro < 2 and size <= ONE_PIXEL_LEFT.get(spec.model.name, 0):
        message = (
            f"{spec.model.name} on images of {size} pixels needs at least 2 samples in a micro "
            "step; raise training.batch_size or lower training.accumulation"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/training/batch_size")
