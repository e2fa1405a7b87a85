"""Where the host's time goes while it trains, and what follows when batches are what is slow."""

import contextlib
import time
from collections.abc import Callable, Iterator

from redkiln.spec.job_spec import TrainingSpec

LOADER_BOUND = 0.2
"""Share of a step's time that making its batch may take."""
WAITS = 0.05
"""A host that waits for the device for more of a step has batches ready in time."""
MIN_STEPS = 20
"""Of fewer steps the first, slow ones are too large a part."""


class Pace:
    """Times the host's part of training.

    Attributes:
        making_seconds: spent on making batches.
        waiting_seconds: spent on waiting until the device has done what it was given.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.making_seconds = 0.0
        self.waiting_seconds = 0.0
        self._clock = clock

    @contextlib.contextmanager
    def making(self) -> Iterator[None]:
        """Within it a batch is made, or a part of it."""
        began = self._clock()
        yield
        self.making_seconds += self._clock() - began

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Within it the host may have to wait for the device."""
        began = self._clock()
        yield
        self.waiting_seconds += self._clock() - began


def reads_images(spec: TrainingSpec) -> bool:
    """Whether a task's samples are images, whose size and augmentation can be chosen."""
    options = getattr(getattr(spec, "model", None), "options", None)
    return hasattr(options, "image_size")


def find_slow_loader(
    pace: Pace, *, steps: int, seconds: float, has_images: bool = True
) -> str | None:
    """Why batches slow the training down, and what to do; None when they do not.

    A host that waits for the device has made its batches meanwhile, however long that took.

    Args:
        pace: of the host.
        steps: that were made.
        seconds: that they took.
        has_images: whether there are images that could be smaller.
    """
    if steps < MIN_STEPS or pace.making_seconds < LOADER_BOUND * seconds:
        return None
    if pace.waiting_seconds > WAITS * seconds:
        return None
    making_ms, step_ms = (1000 * value / steps for value in (pace.making_seconds, seconds))
    remedy = "more CPU threads for the worker (REDKILN_THREADS) help"
    if has_images:
        remedy = f"less augmentation, smaller images (model.options.image_size) or {remedy}"
    return (
        f"loader-bound: making batches takes {making_ms / step_ms:.0%} of a step "
        f"({making_ms:.1f} of {step_ms:.1f} ms): {remedy}"
    )
