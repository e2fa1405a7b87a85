"""Decides when to save a run, and writes and reports its checkpoints."""

import math
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from redkiln.events import EventKind
from redkiln.failure import FailureCode
from worker.checkpoints.checkpoint import CheckpointStore
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.trainer.devices import describe_device
from worker.trainer.insight.insight import Insight
from worker.trainer.loop.state import TrainingState
from worker.trainer.setup import TrainingSetup


class Saving:
    """Writes the checkpoints of a run.

    Args:
        setup: The job in training.
        state: The training state.
        store: Store for the run's checkpoints.
        event_log: Receives an event for each checkpoint.
        insight: Measures what a checkpoint costs.
        is_writer: Whether this rank writes; the others only keep track.
    """

    def __init__(
        self,
        setup: TrainingSetup,
        state: TrainingState,
        *,
        store: CheckpointStore,
        event_log: EventLog,
        insight: Insight,
        is_writer: bool,
    ) -> None:
        self._setup = setup
        self._state = state
        self._store = store
        self._event_log = event_log
        self._insight = insight
        self._is_writer = is_writer
        self._saved: tuple[int, int] | None = None
        self.is_due_at = self._next()

    @property
    def is_due(self) -> bool:
        """Whether the newest checkpoint is older than the spec allows."""
        return time.perf_counter() >= self.is_due_at

    @property
    def has_any(self) -> bool:
        """Whether there is a checkpoint to go back to."""
        return self._saved is not None

    @property
    def is_current(self) -> bool:
        """Whether the newest checkpoint contains all progress."""
        return self._saved == self._place()

    def note_restored(self) -> None:
        """Record that the state has just been restored from a checkpoint."""
        self._saved = self._place()

    def save(self, *, is_best: bool, metrics: Mapping[str, float]) -> None:
        """Write a checkpoint and report it. All losses up to now must have been read.

        Args:
            is_best: Whether it is the best by the spec's metric.
            metrics: Metrics of the evaluation at this step; empty without one.

        Raises:
            TrainingFailed: a weight is not finite, so the state is not worth keeping.
            OSError: the disk is full, for example; the previous checkpoint is intact.
        """
        step = self._state.step
        if not _is_finite(self._setup.model):
            raise report_diverged(f"a weight is not finite after step {step}", step, self._store)
        if self._is_writer:
            self._write(is_best=is_best, metrics=metrics)
        self._saved = self._place()
        self.is_due_at = self._next()

    def _write(self, *, is_best: bool, metrics: Mapping[str, float]) -> None:
        tensors, values, device = self._state.tensors(), self._values(), self._state.device
        with self._insight.checkpointing():
            manifest = self._store.save(
                tensors,
                step=self._state.step,
                epoch=self._state.step // self._setup.plan.steps_per_epoch,
                is_best=is_best,
                metrics=metrics,
                threads=torch.get_num_threads(),
                device=str(device),
                state=values,
            )
        # A run resumed from here does not repeat these steps, so send their points first.
        self._event_log.flush_points()
        self._event_log.write(
            EventKind.CHECKPOINT,
            step=manifest.step,
            epoch=manifest.epoch,
            file=manifest.name,
            is_best=is_best,
            metrics=dict(metrics),
        )

    def _values(self) -> dict[str, Any]:
        return {
            **self._state.values(),
            "spec": self._setup.spec.model_dump(mode="json"),
            **describe_device(self._state.device),
            "steps": self._setup.plan.steps,
            "steps_per_epoch": self._setup.plan.steps_per_epoch,
            "seconds": dict(self._event_log.settle()),
        }

    def _place(self) -> tuple[int, int]:
        return self._state.step, self._state.evaluated_step

    def _next(self) -> float:
        return time.perf_counter() + self._setup.spec.training.checkpoint_seconds


@torch.no_grad()
def _is_finite(model: nn.Module) -> bool:
    """Return whether all weights are finite; waits for the device once, not for each of them."""
    return math.isfinite(nn.utils.get_total_norm(model.parameters()).item())


def report_diverged(
    what: str, step: int, store: CheckpointStore, *, remedy: str = "Try a lower learning rate."
) -> TrainingFailed:
    """Return the failure of a run that diverged, with the checkpoint to go back to.

    Args:
        what: The value that is not finite, and the step.
        step: Step at which it was found.
        store: The run's checkpoints.
        remedy: Advice to the user.
    """
    good = store.manifests()
    last = f"the last good checkpoint is {good[-1].name}" if good else "there is no checkpoint"
    message = f"training diverged: {what}; {last}. {remedy}"
    return TrainingFailed(
        FailureCode.DIVERGED,
        message,
        step=step,
        checkpoint=good[-1].name if good else None,
    )
