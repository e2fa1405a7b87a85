"""The type that a model is trained in: what the device has, what it prefers, what it gets wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from redkiln.failure import FailureCode
from redkiln.views.hardware import Precision
from worker.process.failed import TrainingFailed

CPU_BF16_PIXELS = 8192
"""Of a micro step, from which on a CPU with bf16 instructions is faster in bf16. A step's time over
that in fp32: 1.09 for 512 pixels (mnist-cnn, batch 8, 8x8), 0.98 for 6272 (batch 8, 28x28), 0.74
for 8192 (amdnet, batch 8, 32x32), 0.76 for 100,352 (mnist-cnn, batch 128, 28x28); 2 cores of an AMD
EPYC, torch 2.13, interleaved steps on a busy machine, November 2026."""


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
