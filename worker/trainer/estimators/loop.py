"""Grows an estimator in rounds: metrics of each round, checkpoints, early stopping, progress.

A library's own training cannot be interrupted, so rounds are grown in portions of a few seconds,
and a request to stop is answered between two of them. Neither the model nor its curve depends on
the portions.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import torch

from redkiln.events import EventKind
from redkiln.failure import FailureCode
from redkiln.status import Phase
from redkiln.views.job import Progress
from worker.checkpoints.checkpoint import READING, Checkpoint, CheckpointStore
from worker.checkpoints.history import History
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.process.lifetime import Stopped
from worker.trainer.devices import describe_device
from worker.trainer.estimators.setup import EstimatorSetup
from worker.trainer.loop.patience import Patience

FIRST_ROUNDS = 5
PORTION_SECONDS = 3.0
"""Time that a portion of rounds should take: a request to stop waits for its end, and each portion
reads the data again."""
MOST_GROWTH = 4


@dataclass
class _Best:
    """The best round so far; without validation the newest one."""

    round: int = 0
    metrics: dict[str, float] | None = None


class EstimatorLoop:
    """Trains a prepared estimator.

    Args:
        setup: The prepared job.
        store: Checkpoints of the job.
        event_log: Receives points, progress and checkpoints.
        should_stop: Returns whether somebody asked to stop.
        is_finishing: Whether to grow no further.

    Attributes:
        history: Every metric's points so far.
        first_step_at: Time of the first round in this process.
    """

    def __init__(
        self,
        setup: EstimatorSetup,
        *,
        store: CheckpointStore,
        event_log: EventLog,
        should_stop: Callable[[], bool],
        is_finishing: bool = False,
    ) -> None:
        self.history = History()
        self.first_step_at: datetime | None = None
        self._setup = setup
        self._model = setup.estimator
        self._store = store
        self._event_log = event_log
        self._should_stop = should_stop
        self._patience = Patience(setup.spec.training)
        self._best = _Best()
        self._is_over = is_finishing
        self._saved_round = 0
        self._saved_at = time.perf_counter()
        self._portion = FIRST_ROUNDS
        self._rounds_per_second: float | None = None

    @property
    def step(self) -> int:
        """Rounds so far."""
        return self._model.num_rounds

    @property
    def best_step(self) -> int:
        """The best round so far, by validation; without validation the newest one."""
        return self._best.round

    @property
    def best_metrics(self) -> dict[str, float]:
        """Validation metrics of the best round."""
        return self._best.metrics or {}

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint."""
        state = checkpoint.manifest.state
        self._model.load(checkpoint.tensors_of("model"))
        self.history = History.from_tensors(checkpoint.tensors_of("history"))
        self._best = _Best(state["best_round"], state["best_metrics"])
        self._saved_round = self.step
        self._is_over |= self._patience.is_over(self.history)

    def run(self) -> None:
        """Grow all rounds, and write the best and the last checkpoint.

        Raises:
            Stopped: a stop was requested; all rounds are in a checkpoint.
            TrainingFailed: a metric is not finite.
        """
        self._event_log.enter(Phase.TRAINING)
        while not self._is_over and self.step < self._setup.rounds:
            self._stop_if_asked()
            self._grow()
            if self._event_log.is_progress_due():
                self._say_progress()
            if time.perf_counter() - self._saved_at >= self._setup.spec.training.checkpoint_seconds:
                self._save(self.step)
        self._stop_if_asked()
        self._say_progress()
        if self._best.round < self.step:
            self._save(self._best.round)
        self._save(self.step)

    def _stop_if_asked(self) -> None:
        if not self._should_stop():
            return
        if self.step > self._saved_round:
            self._save(self.step)
        self._event_log.flush_points()
        raise Stopped

    def _grow(self) -> None:
        first = self.step
        rounds = min(self._portion, self._setup.rounds - first)
        start = time.perf_counter()
        found = self._model.grow(rounds)
        seconds = time.perf_counter() - start
        self._rounds_per_second = rounds / seconds
        fitting = int(self._portion * PORTION_SECONDS / seconds)
        self._portion = max(1, min(fitting, MOST_GROWTH * self._portion))
        if self.first_step_at is None:
            self.first_step_at = datetime.now(UTC)
        for number, metrics in enumerate(found, start=first + 1):
            self._add(number, metrics)
            if self._patience.is_over(self.history):
                text = self._patience.explain(self.history, epochs=self._setup.rounds)
                self._event_log.message(text.replace("epoch", "iteration"))
                self._is_over = True
                # Rounds grown in the same portion after this one do not count.
                self._model.cut(number)
                return

    def _add(self, number: int, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            if not math.isfinite(value):
                message = f"training diverged: {name} is {value} after iteration {number}"
                raise TrainingFailed(FailureCode.DIVERGED, message, step=number)
            self.history.add(name, number, value)
            self._event_log.add_point(name, number, value)
        scores = {name: value for name, value in metrics.items() if name.startswith("val/")}
        best = self._best.metrics
        if not scores or best is None or self._setup.is_better(scores, best):
            self._best = _Best(number, scores or None)

    def _say_progress(self) -> None:
        rounds, step, speed = self._setup.rounds, self.step, self._rounds_per_second
        rate = None if speed is None else speed * self._setup.counts["train"]
        if rate is not None and step:
            self._event_log.add_point("samples_per_second", step, rate)
        self._event_log.progress(
            Progress(
                epoch=step,
                epochs=rounds,
                step=step,
                steps=rounds,
                fraction=step / rounds,
                samples_per_second=rate,
                eta_seconds=None if speed is None else (rounds - step) / speed,
                metrics=self.history.newest(),
            )
        )

    def _save(self, rounds: int) -> None:
        """Write a checkpoint of the first rounds and report it."""
        is_best = rounds == self._best.round
        metrics = self.best_metrics if is_best else {}
        manifest = self._store.save(
            self._tensors(rounds),
            step=rounds,
            epoch=rounds,
            is_best=is_best,
            metrics=metrics,
            threads=torch.get_num_threads(),
            device="cpu",
            state=self._state(),
        )
        self._saved_round, self._saved_at = self.step, time.perf_counter()
        # A run resumed from here does not repeat these rounds, so send their points first.
        self._event_log.flush_points()
        self._event_log.write(
            EventKind.CHECKPOINT,
            step=manifest.step,
            epoch=manifest.epoch,
            file=manifest.name,
            is_best=is_best,
            metrics=metrics,
        )

    def _tensors(self, rounds: int) -> dict[str, torch.Tensor]:
        tensors = {f"model/{k}": v for k, v in self._model.tensors(rounds).items()}
        tensors |= {f"history/{k}": v for k, v in self.history.to_tensors().items()}
        if self._setup.reading is not None:
            content = bytearray(self._setup.reading.encode())
            tensors[READING] = torch.frombuffer(content, dtype=torch.uint8)
        return tensors

    def _state(self) -> dict[str, Any]:
        return {
            "best_round": self._best.round,
            "best_metrics": self._best.metrics,
            "spec": self._setup.spec.model_dump(mode="json"),
            **describe_device(torch.device("cpu")),
            "steps": self._setup.rounds,
            "steps_per_epoch": 1,
            "seconds": dict(self._event_log.settle()),
        }
