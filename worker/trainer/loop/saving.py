"""When a run is saved, what goes into its checkpoint, and what is said of it."""

import time
from collections.abc import Mapping
from typing import Any

import torch

from redkiln.events import EventKind
from redkiln.failure import FailureCode
from worker.checkpoints.checkpoint import CheckpointStore
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.trainer.devices import describe_device
from worker.trainer.insight.insight import Insight
from worker.trainer.loop.release import copy_to_host, release_device
from worker.trainer.loop.state import TrainingState
from worker.trainer.setup import TrainingSetup


class Saving:
    """Writes the checkpoints of a run.

    Args:
        setup: that is trained.
        state: of the training.
        store: of its checkpoints.
        event_log: hears of each.
        insight: knows what a checkpoint costs.
        is_writer: whether this rank writes; the others keep step with it.
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
        """Whether there is something to go back to."""
        return self._saved is not None

    @property
    def is_current(self) -> bool:
        """Whether the newest checkpoint holds all that was done."""
        return self._saved == self._place()

    def note_restored(self) -> None:
        """The state has just come from a checkpoint."""
        self._saved = self._place()

    def save(self, *, is_best: bool, metrics: Mapping[str, float], is_leaving: bool) -> None:
        """Write a checkpoint and say so; every loss up to here has been read.

        Args:
            is_best: by the metric that the spec chooses by.
            metrics: of the evaluation at this step; empty without one.
            is_leaving: the process ends next, and somebody else may want its GPU.

        Raises:
            TrainingFailed: a weight is not finite, which is not worth keeping.
            OSError: the disk is full, say; the previous checkpoint is as it was.
        """
        step = self._state.step
        if not all(bool(torch.isfinite(t).all()) for t in self._setup.model.parameters()):
            raise say_diverged(f"a weight is not finite after step {step}", step, self._store)
        if self._is_writer:
            self._write(is_best=is_best, metrics=metrics, is_leaving=is_leaving)
        self._saved = self._place()
        self.is_due_at = self._next()

    def _write(self, *, is_best: bool, metrics: Mapping[str, float], is_leaving: bool) -> None:
        tensors, values, device = self._state.tensors(), self._values(), self._state.device
        if is_leaving and device.type == "cuda":
            # Whoever wants the GPU does not wait for the disk.
            tensors = copy_to_host(tensors)
            self._setup.close()
            release_device(device)
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
        # Whoever goes on from here does not make these steps again, so their points go out first.
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


def say_diverged(
    what: str, step: int, store: CheckpointStore, *, remedy: str = "Try a lower learning rate."
) -> TrainingFailed:
    """The failure of a run whose numbers are none any more, with what there is to go back to.

    Args:
        what: became of the numbers, and where.
        step: that it was found at.
        store: of the run's checkpoints.
        remedy: what to try.
    """
    good = store.manifests()
    last = f"the last good checkpoint is {good[-1].name}" if good else "no checkpoint was made"
    message = f"training diverged: {what}; {last}. {remedy}"
    return TrainingFailed(
        FailureCode.DIVERGED,
        message,
        step=step,
        checkpoint=good[-1].name if good else None,
    )
