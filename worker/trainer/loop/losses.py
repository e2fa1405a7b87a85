"""The losses of a run's steps, which stay on the device until they are wanted."""

import math

import torch

from worker.checkpoints.checkpoint import CheckpointStore
from worker.process.failed import TrainingFailed
from worker.trainer.insight.pace import Pace
from worker.trainer.loop.account import Account
from worker.trainer.loop.saving import say_diverged
from worker.trainer.loop.state import TrainingState
from worker.trainer.optim.scaling import MAX_SKIPPED_IN_A_ROW
from worker.trainer.ranks.distributed import Ranks

MAX_UNREAD = 256


class Losses:
    """Collects one loss a step and reads them together.

    Args:
        state: of the training; says which step was the last.
        ranks: each of which has a part of every loss.
        pace: waiting for the device is noted there.
        account: gets the points of the curve.
        store: of the run's checkpoints.
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
        """Whether it is time to read them, whoever wants to know."""
        return len(self._unread) >= MAX_UNREAD

    def add(self, loss: torch.Tensor) -> None:
        """Take the loss of the step that is being made: a scalar, wherever it lies."""
        self._unread.append(loss)

    def forget(self) -> None:
        """The steps since the last time are not part of the run any more."""
        self._unread.clear()

    def read(self) -> None:
        """Fetch those since the last time; here the host waits for the device.

        Raises:
            TrainingFailed: one is no number, or too many steps in a row overflowed.
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
                raise say_diverged(f"the loss is {loss} at step {step}", step, self._store)
            mean = state.curve.add(loss, step=step)
            if mean is not None:
                self._account.add_point("train/loss", mean, step=step)

    def _overflowed(self, step: int) -> TrainingFailed:
        num = MAX_SKIPPED_IN_A_ROW
        what = f"{num} steps in a row had gradients too large for fp16, up to step {step}"
        remedy = "Try a lower learning rate, or precision fp32."
        return say_diverged(what, step, self._store, remedy=remedy)
