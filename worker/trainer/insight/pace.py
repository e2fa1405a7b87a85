"""Measures the host's time during training, and detects that preparing batches slows it down."""

import contextlib
import time
from collections.abc import Callable, Iterator

from redkiln.spec.job_spec import TrainingSpec

LOADER_BOUND = 0.2
"""Share of a step's time that preparing its batch may take."""
WAITS = 0.05
"""If the host waits for the device for more of a step than this, batches are ready in time."""
MIN_STEPS = 20
"""With fewer steps, the first, slow ones would count too much."""


class Pace:
    """Times the host's part of training.

    Attributes:
        making_seconds: Time spent preparing batches.
        waiting_seconds: Time spent waiting for the device.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.making_seconds = 0.0
        self.waiting_seconds = 0.0
        self._clock = clock

    @contextlib.contextmanager
    def making(self) -> Iterator[None]:
        """Count the time inside the block as preparing a batch."""
        began = self._clock()
        yield
        self.making_seconds += self._clock() - began

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time inside the block as waiting for the device."""
        began = self._clock()
        yield
        self.waiting_seconds += self._clock() - began


def reads_images(spec: TrainingSpec) -> bool:
    """Return whether a task's samples are images, whose size and augmentation can be chosen."""
    options = getattr(getattr(spec, "model", None), "options", None)
    return hasattr(options, "image_size")


def find_slow_loader(
    pace: Pace, *, steps: int, seconds: float, has_images: bool = True
) -> str | None:
    """Return why batches slow training down and what to do; None if they do not.

    If the host waits for the device, batches are ready in time, however long they take.

    Args:
        pace: Measurements of the host's time.
        steps: Number of steps.
        seconds: Time of these steps.
        has_images: Whether samples are images, which could be smaller.
    """
    if steps < MIN_STEPS or pace.making_seconds < LOADER_BOUND * seconds:
        return None
    if pace.waiting_seconds > WAITS * seconds:
        return None
    making_ms, step_ms = (1000 * value / steps for value in (pace.making_seconds, seconds))
    remedy = "more CPU threads for the worker (REDKILN_THREADS)"
    if has_images:
        remedy = f"less augmentation, smaller images (model.options.image_size) or {remedy}"
    return (
        f"loader-bound: preparing batches takes {making_ms / step_ms:.0%} of a step "
        f"({making_ms:.1f} of {step_ms:.1f} ms); what helps: {remedy}"
    )
