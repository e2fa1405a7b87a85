"""How fast training goes, and when it will be over."""

import time

SLOW_STEPS = 10
"""The first steps are slower than all others: no end is foreseen from them alone."""


class Speed:
    """Samples per second since the last look, and the time that is left.

    Attributes:
        samples_per_second: at the last look; None until two of them.
        began_step: the step that this process went on from, and the steps that were left out.
        began_seconds: of training, all processes together, when this one began.
    """

    def __init__(self) -> None:
        self.samples_per_second: float | None = None
        self.began_step = 0
        self.began_seconds = 0.0
        self._began_at: float | None = None
        self._step = 0
        self._seconds = 0.0

    def restart(self, step: int) -> None:
        """Training goes on from this step."""
        self.began_step = self._step = step
        self._began_at = None

    def begin(self, *, seconds: float) -> None:
        """Steps are made from now on; asked again, it changes nothing."""
        if self._began_at is None:
            self._began_at = time.perf_counter()
            self.began_seconds = self._seconds = seconds

    def leave_out(self, steps: int, *, seconds: float) -> None:
        """Steps were made that say nothing of the speed, in a phase that is not training.

        Args:
            steps: how many.
            seconds: that they took.
        """
        self.began_step += steps
        self._step += steps
        if self._began_at is not None:
            self._began_at += seconds

    def measure(self, step: int, *, seconds: float, batch_size: int) -> bool:
        """Take a look; whether there is a new speed.

        Args:
            step: that was made last.
            seconds: of training so far.
            batch_size: samples in a step.
        """
        steps, spent = step - self._step, seconds - self._seconds
        if step == self.began_step + 1:
            # The very first step says nothing of the speed.
            self._step, self._seconds = step, seconds
            return False
        if not steps or spent <= 0:
            return False
        self.samples_per_second = steps * batch_size / spent
        self._step, self._seconds = step, seconds
        return True

    def eta_seconds(self, step: int, *, steps: int, steps_per_epoch: int) -> float | None:
        """Time until the last step; None while too little is known."""
        done = step - self.began_step
        if self._began_at is None or done < min(SLOW_STEPS, steps_per_epoch):
            return None
        return (time.perf_counter() - self._began_at) / done * (steps - step)
