"""Chooses the type that a model is trained in, from what the device supports and gets right."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from redkiln.failure import FailureCode
from redkiln.views.hardware import Precision
from worker.process.failed import TrainingFailed

CPU_BF16_PIXELS = 8192
"""Pixels per micro step from which a CPU with bf16 instructions is faster in bf16. Time of a bf16
step divided by that of an fp32 step: 1.09 for 512 pixels (mnist-cnn, batch 8, 8x8), 0.98 for 6272
(batch 8, 28x28), 0.74 for 8192 (amdnet, batch 8, 32x32), 0.76 for 100,352 (mnist-cnn, batch 128,
28x28); 2 cores of an AMD EPYC, torch 2.13, interleaved steps on a busy machine, November 2026."""


@dataclass(frozen=True)
class DeviceFacts:
    """Facts about a device that affect decisions.

    Attributes:
        kind: torch's device type.
        has_bf16: Whether it has bf16 arithmetic; older CPUs and older NVIDIA GPUs emulate it.
        is_hip: Whether it is an AMD GPU.
        preferred: Value of `auto`. None: bf16 or fp32, by `has_bf16`.
        denied: Types that must not be used for training, each with the reason.
        unchosen: Further types that `auto` does not choose, because of a known defect or because
            they are slow.
        suggests_channels_last: Whether MIOpen is set to take that layout without conversion.
    """

    kind: str
    has_bf16: bool = False
    is_hip: bool = False
    preferred: Precision | None = None
    denied: Mapping[str, str] = field(default_factory=dict)
    unchosen: frozenset[Precision] = frozenset()
    suggests_channels_last: bool = False


def resolve_precision(
    wanted: Literal["auto"] | Precision, *, device: DeviceFacts, pixels: int | None = None
) -> Precision:
    """Return the type of the forward pass.

    Args:
        wanted: Precision in the spec.
        device: Device that the forward pass runs on.
        pixels: Pixels in a micro step's images, if known.

    Raises:
        TrainingFailed: the GPU lacks that arithmetic or computes it wrongly.
    """
    if wanted == "auto":
        is_small = device.kind == "cpu" and pixels is not None and pixels < CPU_BF16_PIXELS
        by_torch: Precision = "bf16" if device.has_bf16 and not is_small else "fp32"
        return device.preferred or by_torch
    if wanted not in device.denied:
        return wanted
    message = (
        f"{device.denied[wanted]}; set precision to auto, which means "
        f"{device.preferred or 'fp32'} on this device, or to fp32"
    )
    raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/training/precision")


def list_contenders(device: DeviceFacts, *, resolved: Precision) -> tuple[Precision, ...]:
    """Return the types that a trial compares for `auto`.

    Args:
        device: Device to train on.
        resolved: Value of `auto` without a trial. A CPU that would use fp32 is not tried.
    """
    if device.kind == "cpu":
        return ("bf16", "fp32") if resolved == "bf16" else ()
    forbidden = {*device.denied, *device.unchosen, *(() if device.has_bf16 else ("bf16",))}
    names: tuple[Precision, ...] = ("bf16", "fp16", "fp32")
    return tuple(name for name in names if name not in forbidden)


def deny(device: DeviceFacts, denied: Mapping[str, str]) -> DeviceFacts:
    """Return the device without the types that it computes wrongly, each with the reason."""
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
