"""The learning-rate schedules that a spec can name, and the rates that they give.

A rate depends only on the step, and for `plateau` on the curve of the validation loss, which is
part of a checkpoint. So a schedule has no state to save.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from redkiln.spec.strict import Auto, Shorthand

ONE_CYCLE_WARMUP = 0.3
ONE_CYCLE_START = 1 / 25
ONE_CYCLE_END = ONE_CYCLE_START / 1e4
"""Source: the defaults of torch.optim.lr_scheduler.OneCycleLR, after Smith, arXiv:1708.07120."""
FALLING_WARMUP = 0.1
"""Warm-up of `cosine` and `linear` on images and text: starting at the highest rate costs final
accuracy, more so with larger batches. Tables do not need it.

Measured: amdnet on 9,000 images of CIFAR-10 for 10 epochs with AdamW, test accuracy without and
with, means of 3 to 5 seeds: 0.636 and 0.652 at batch 32, 0.621 and 0.650 at 64, 0.586 and 0.641
at 128, each with the rate for its batch; 0.05 does as well as 0.1. The MLP
on the breast cancer table at batch 8, 6 seeds: 0.991 and 0.971.
"""
PLATEAU_THRESHOLD = 1e-4
"""Relative improvement below which a loss counts as no better. Source: the default of
torch.optim.lr_scheduler.ReduceLROnPlateau."""
PARTS_OF_A_RUN = 3
"""`step` divides a run into this many parts if the spec does not say how long one is: the usual 90
epochs on ImageNet fall at 30 and 60. Source: torchvision's references for classification."""


Points = Sequence[tuple[int, float]]


class _Warming(Shorthand):
    warmup_fraction: Auto | Annotated[float, Field(ge=0, le=0.9)] = Field(
        "auto",
        description="Fraction of all steps in which the rate rises. `auto` is 0.3 for `one-cycle`, "
        "0.1 for `cosine` and `linear` on images and text, and 0 otherwise.",
    )


class Constant(_Warming):
    """The same rate in every step."""

    name: Literal["constant"] = "constant"


class Cosine(_Warming):
    """Falls to zero along half a cosine."""

    name: Literal["cosine"] = "cosine"


class Linear(_Warming):
    """Falls evenly to zero."""

    name: Literal["linear"] = "linear"


class OneCycle(_Warming):
    """Rises from 1/25 of the rate and falls to almost zero, both along a cosine."""

    name: Literal["one-cycle"] = "one-cycle"


class Stepwise(_Warming):
    """Falls by a factor every few epochs."""

    name: Literal["step"] = "step"
    every: Auto | Annotated[int, Field(ge=1, le=100_000)] = Field(
        "auto", description="Epochs between two falls. `auto` is a third of the run."
    )
    gamma: float = Field(0.1, gt=0, le=1, description="Factor of each fall.")


class Exponential(_Warming):
    """Falls by the same factor after each epoch."""

    name: Literal["exponential"] = "exponential"
    gamma: float = Field(0.9, gt=0, le=1, description="Factor of each epoch.")


class Plateau(_Warming):
    """Falls by a factor whenever `val/loss` has stopped improving."""

    name: Literal["plateau"] = "plateau"
    patience: int = Field(
        3, ge=0, le=10_000, description="Epochs without improvement before the rate falls."
    )
    gamma: float = Field(0.1, gt=0, lt=1, description="Factor of each fall.")


def _tag(value: Any) -> Any:
    if isinstance(value, dict):
        return value.get("name", "cosine")
    return getattr(value, "name", value)


Schedule = Annotated[
    Annotated[Cosine, Tag("cosine")]
    | Annotated[Linear, Tag("linear")]
    | Annotated[OneCycle, Tag("one-cycle")]
    | Annotated[Constant, Tag("constant")]
    | Annotated[Stepwise, Tag("step")]
    | Annotated[Exponential, Tag("exponential")]
    | Annotated[Plateau, Tag("plateau")],
    Discriminator(_tag),
]


def learning_rate(
    schedule: Schedule,
    *,
    start: float,
    step: int,
    steps: int,
    steps_per_epoch: int,
    losses: Points = (),
) -> float:
    """Return the learning rate of a step.

    Args:
        schedule: Schedule with its settings.
        start: Peak rate.
        step: Number of the step, from 0.
        steps: Steps of the whole run.
        steps_per_epoch: Steps of an epoch.
        losses: Curve of the validation loss: steps done and loss. `plateau` uses its points up to
            this step.
    """
    warmup = warmup_fraction(schedule) * steps
    if isinstance(schedule, OneCycle):
        return start * _one_cycle(step, warmup=warmup, last=max(1, steps - 1))
    if step < warmup:
        return start * (step + 1) / (math.floor(warmup) + 1)
    share = (step - warmup) / (steps - warmup)
    epoch = step // steps_per_epoch
    match schedule:
        case Constant():
            return start
        case Linear():
            return start * (1 - share)
        case Cosine():
            return start * 0.5 * (1 + math.cos(math.pi * share))
        case Stepwise():
            third = math.ceil(math.ceil(steps / steps_per_epoch) / PARTS_OF_A_RUN)
            every = third if schedule.every == "auto" else schedule.every
            return start * schedule.gamma ** (epoch // every)
        case Exponential():
            return start * float(schedule.gamma**epoch)
        case Plateau():
            known = [loss for at, loss in losses if at <= step]
            return start * schedule.gamma ** count_plateaus(known, patience=schedule.patience)


def warmup_fraction(schedule: Schedule, *, falling: float = 0.0) -> float:
    """Return the fraction of all steps in which the rate rises.

    Args:
        schedule: Schedule with a warm-up fraction or `auto`.
        falling: Value of `auto` for `cosine` and `linear`.
    """
    if schedule.warmup_fraction != "auto":
        return schedule.warmup_fraction
    match schedule:
        case OneCycle():
            return ONE_CYCLE_WARMUP
        case Cosine() | Linear():
            return falling
        case _:
            return 0.0


def count_plateaus(losses: Iterable[float], *, patience: int) -> int:
    """Count how often a loss has not improved for more than `patience` epochs in a row.

    Args:
        losses: Loss after each epoch.
        patience: Epochs without improvement that are allowed.
    """
    best, num_bad, num_plateaus = math.inf, 0, 0
    for loss in losses:
        if loss < best * (1 - PLATEAU_THRESHOLD):
            best, num_bad = loss, 0
            continue
        num_bad += 1
        if num_bad > patience:
            num_plateaus, num_bad = num_plateaus + 1, 0
    return num_plateaus


def _one_cycle(step: int, *, warmup: float, last: int) -> float:
    peak = max(0.0, warmup - 1)
    if step <= peak and peak > 0:
        return _between(ONE_CYCLE_START, 1.0, share=step / peak)
    return _between(1.0, ONE_CYCLE_END, share=(step - peak) / max(1.0, last - peak))


def _between(start: float, end: float, *, share: float) -> float:
    """Interpolate between `start` and `end` along half a cosine."""
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))
