"""Reports a run's progress while it trains: points of its curves, and how far it is."""

import math

from redkiln.status import Phase
from redkiln.views.job import Progress
from worker.process.event_log import EventLog
from worker.trainer.insight.insight import Insight
from worker.trainer.loop.speed import Speed
from worker.trainer.loop.state import TrainingState
from worker.trainer.plan import Plan


class Account:
    """Reports the points and the progress of a run.

    Args:
        plan: The run's steps and epochs.
        state: The training state; its history keeps the points, too.
        event_log: Receives points and progress.
        insight: Completes each progress event with its measurements.

    Attributes:
        speed: Speed of the training.
    """

    def __init__(
        self, plan: Plan, state: TrainingState, *, event_log: EventLog, insight: Insight
    ) -> None:
        self.speed = Speed()
        self._plan = plan
        self._state = state
        self._event_log = event_log
        self._insight = insight

    @property
    def seconds(self) -> float:
        """Training time so far, summed over all attempts."""
        return self._event_log.settle().get(Phase.TRAINING, 0.0)

    def begin(self) -> None:
        """Start measuring the speed."""
        self.speed.begin(seconds=self.seconds)

    def add_point(self, name: str, value: float, *, step: int | None = None) -> None:
        """Add a point to a curve, at the current step if none is given."""
        step = self._state.step if step is None else step
        self._state.history.add(name, step, value)
        self._event_log.add_point(name, step, value)

    def say(self, *, lr: float, batch_size: int) -> None:
        """Report progress.

        Args:
            lr: Learning rate of the next step.
            batch_size: Samples per step.
        """
        plan, step = self._plan, self._state.step
        is_new = self.speed.measure(step, seconds=self.seconds, batch_size=batch_size)
        if is_new and self.speed.samples_per_second is not None:
            self._event_log.add_point("samples_per_second", step, self.speed.samples_per_second)
            self._event_log.add_point("lr", step, lr)
        progress = Progress(
            epoch=min(plan.epochs, step // plan.steps_per_epoch + 1),
            epochs=plan.epochs,
            step=step,
            steps=plan.steps,
            fraction=step / plan.steps,
            samples_per_second=self.speed.samples_per_second,
            eta_seconds=self.speed.eta_seconds(
                step, steps=plan.steps, steps_per_epoch=plan.steps_per_epoch
            ),
            metrics={**self._state.history.newest(), "lr": lr},
        )
        self._event_log.progress(self._insight.complete(progress))

    def close_epoch(self) -> None:
        """Write one log line for an evaluated epoch."""
        plan, step = self._plan, self._state.step
        newest = self._state.history.newest()
        values = ", ".join(f"{name} {value:.4g}" for name, value in newest.items())
        epoch = math.ceil(step / plan.steps_per_epoch)
        self._event_log.log(f"epoch {epoch}/{plan.epochs}, step {step}/{plan.steps}: {values}")
