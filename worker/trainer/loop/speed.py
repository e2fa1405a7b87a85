"""Measures training speed and estimates the time left."""

import time

SLOW_STEPS = 10
"""The first steps are the slowest, so no estimate is made from these alone."""


class Speed:
    """Samples per second since the last measurement, and the time left.

    Attributes:
        samples_per_second: Latest measurement; None until there is one.
        began_step: Step that this process started from, plus the steps left out.
        began_seconds: Training time of all attempts when this process started.
    """

    def __init__(self) -> None:
        self.samples_per_second: float | None = None
        self.began_step = 0
        self.began_seconds = 0.0
        self._began_at: float | None = None
        self._step = 0
        self._seconds = 0.0

    def restart(self, step: int) -> None:
        """Start again from this step."""
        self.began_step = self._step = step
        self._began_at = None

    def begin(self, *, seconds: float) -> None:
        """Start measuring; further calls have no effect."""
        if self._began_at is None:
            self._began_at = time.perf_counter()
            self.began_seconds = self._seconds = seconds

    def leave_out(self, steps: int, *, seconds: float) -> None:
        """Exclude steps that are not typical, in a phase other than training.

        Args:
            steps: Number of steps.
            seconds: Time that they took.
        """
        self.began_step += steps
        self._step += steps
        if self._began_at is not None:
            self._began_at += seconds

    def measure(self, step: int, *, seconds: float, batch_size: int) -> bool:
        """Measure the speed and return whether there is a new value.

        Args:
            step: Last step done.
            seconds: Training time so far.
            batch_size: Samples per step.
        """
        steps, spent = step - self._step, seconds - self._seconds
        if step == self.began_step + 1:
            # The very first step is not typical.
            self._step, self._seconds = step, seconds
            return False
        if not steps or spent <= 0:
            return False
        self.samples_per_second = steps * batch_size / spent
        self._step, self._seconds = step, seconds
        return True

    def eta_seconds(self, step: int, *, steps: int, steps_per_epoch: int) -> float | None:
        """Return the time until the last step; None until there are enough steps to estimate it."""
        done = step - self.began_step
        if self._began_at is None or done < min(SLOW_STEPS, steps_per_epoch):
            return None
        return (time.perf_counter() - self._began_at) / done * (steps - step)
