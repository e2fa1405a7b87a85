"""The losses of a run's steps, which stay on the device until they are needed."""

import math

import torch

from worker.checkpoints.checkpoint import CheckpointStore
from worker.process.failed import TrainingFailed
from worker.trainer.insight.pace import Pace
from worker.trainer.loop.account import Account
from worker.trainer.loop.saving import report_diverged
from worker.trainer.loop.state import TrainingState
from worker.trainer.optim.scaling import MAX_SKIPPED_IN_A_ROW
from worker.trainer.ranks.distributed import Ranks

MAX_UNREAD = 256


class Losses:
    """Collects one loss per step and reads them together.

    Args:
        state: The training state, which holds the number of the last step.
        ranks: Ranks that each hold a part of every loss.
        pace: Records the time spent waiting for the device.
        account: Receives the points of the loss curve.
        store: The run's checkpoints, for the message of a failure.
    """

    def __init__(
        self,
        state: TrainingState,
        *,
        ranks: Ranks,
        pace: Pace,
        account: Account,
        store: CheckpointStore,
    ) -> None:
        self._state = state
        self._ranks = ranks
        self._pace = pace
        self._account = account
        self._store = store
        self._unread: list[torch.Tensor] = []

    @property
    def are_many(self) -> bool:
        """Whether so many losses are unread that they should be read now."""
        return len(self._unread) >= MAX_UNREAD

    def add(self, loss: torch.Tensor) -> None:
        """Add the loss of the current step: a scalar on any device."""
        self._unread.append(loss)

    def forget(self) -> None:
        """Drop unread losses, because their steps are no longer part of the run."""
        self._unread.clear()

    def read(self) -> None:
        """Read the losses added since the last call; the host waits for the device here.

        Raises:
            TrainingFailed: a loss is not finite, or too many steps in a row overflowed.
        """
        if not self._unread:
            return
        state = self._state
        first = state.step - len(self._unread) + 1
        with self._pace.waiting():
            losses = self._ranks.sum(torch.stack(self._unread)).tolist()
        self._unread.clear()
        skipped = state.scaling.read_skipped(len(losses))
        for step, (loss, was_skipped) in enumerate(zip(losses, skipped, strict=True), start=first):
            if state.scaling.count(was_skipped=was_skipped):
                raise self._overflowed(step)
            if not math.isfinite(loss) and not was_skipped:
                raise report_diverged(f"the loss is {loss} at step {step}", step, self._store)
            mean = state.curve.add(loss, step=step)
            if mean is not None:
                self._account.add_point("train/loss", mean, step=step)

    def _overflowed(self, step: int) -> TrainingFailed:
        num = MAX_SKIPPED_IN_A_ROW
        what = f"{num} steps in a row had gradients too large for fp16, up to step {step}"
        remedy = "Try a lower learning rate, or precision fp32."
        return report_diverged(what, step, self._store, remedy=remedy)
