"""The training loop: steps, evaluation after each epoch, checkpoints, and progress reports.

A step (`step.py`) never waits for the device: losses stay there until progress is due and are then
read together. A checkpoint holds everything that the next step depends on, so a resumed run
computes the same numbers as an uninterrupted one (on the same machine with the same threads). What
happens between steps is all in this file, because its order is what matters.

Words: a step is one optimiser update, counted from 1 in reports. `place` is a batch's position
within its epoch, counted from 0.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any

import torch

from redkiln.events import EventKind
from redkiln.spec.schedule import learning_rate
from redkiln.status import Phase
from redkiln.views.job import PreviewNote
from worker.checkpoints.checkpoint import Checkpoint, CheckpointStore
from worker.checkpoints.history import History
from worker.process.failed import TrainingFailed
from worker.process.lifetime import Stopped
from worker.results.efficiency import Efficiency
from worker.results.findings import FirstSteps
from worker.trainer.guard.guard import Guard
from worker.trainer.insight.insight import Insight
from worker.trainer.insight.pace import find_slow_loader, reads_images
from worker.trainer.loop.books import open_books
from worker.trainer.loop.patience import Patience
from worker.trainer.loop.saving import report_diverged
from worker.trainer.loop.step import Stepper
from worker.trainer.loop.trainer_process import TrainerProcess
from worker.trainer.optim import rollback
from worker.trainer.setup import TrainingSetup


class Loop:
    """Trains a prepared job, in any number of calls to `advance`.

    Args:
        setup: The prepared job.
        process: The process that trains it.
        store: Checkpoints of the job.
        insight: Object that reports on the run and measures it.
        guard: Checks that the device does the work; None on a CPU.
        may_recompute: Whether gradient checkpointing is allowed as the last resort.
        forward: Called with a micro step's inputs, for a compiled model; None for the model itself.
        is_finishing: Whether to train no further: only score the restored state.

    Attributes:
        first_step_at: Time of the first step in this process.
        efficiency: How well `run` used the machine.
    """

    def __init__(
        self,
        setup: TrainingSetup,
        process: TrainerProcess,
        *,
        store: CheckpointStore,
        insight: Insight,
        guard: Guard | None = None,
        may_recompute: bool = False,
        forward: Callable[..., Any] | None = None,
        is_finishing: bool = False,
    ) -> None:
        self.first_step_at: datetime | None = None
        self.efficiency: Efficiency | None = None
        self._setup, self._plan, self._training = setup, setup.plan, setup.spec.training
        self._event_log, self._should_stop = process.event_log, process.should_stop
        self._store, self._insight, self._guard = store, insight, guard
        self._ranks = process.ranks
        self._stopping, self._due = self._ranks.new_vote(), self._ranks.new_vote()
        self._patience = Patience(self._training, least_epochs=setup.least_epochs)
        self._is_stalled = False
        self._is_finishing = is_finishing
        self._stepper = Stepper(
            setup,
            process,
            on_change=self._report_change,
            guard=guard,
            may_recompute=may_recompute,
            forward=forward,
        )
        books = open_books(setup, process, self._stepper, store=store, insight=insight)
        self._state, self._saving = books.state, books.saving
        self._account, self._losses = books.account, books.losses
        # From here on only training (dropout) draws from the global generator.
        torch.manual_seed(self._training.seed)
        setup.model.train()

    @property
    def step(self) -> int:
        """Optimiser updates done so far."""
        return self._state.step

    @property
    def history(self) -> History:
        """Every metric's points so far."""
        return self._state.history

    @property
    def best_metrics(self) -> dict[str, float] | None:
        """Metrics of the best evaluation so far."""
        return self._state.best_metrics

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint."""
        self._losses.forget()
        self._state.restore(checkpoint)
        self._account.speed.restart(self.step)
        self._is_stalled = self._patience.is_over(self.history)
        self._saving.note_restored()

    def forget_best(self) -> None:
        """Make the next evaluation the best, because the previous best checkpoint is gone."""
        self._state.best_metrics = None

    @property
    def first_steps(self) -> FirstSteps | None:
        """The guard's findings in the first steps of this process; None on a CPU."""
        return None if self._guard is None else self._guard.found

    def find_advice(self) -> list[str]:
        """Return what would make training faster, from measurements in this process."""
        speed = self._account.speed
        slow_loader = find_slow_loader(
            self._setup.batches.pace,
            steps=self.step - speed.began_step,
            seconds=self._account.seconds - speed.began_seconds,
            has_images=reads_images(self._setup.spec),
        )
        return [slow_loader] if slow_loader else []

    @property
    def newest_preview(self) -> PreviewNote | None:
        """The newest sample predictions."""
        return self._insight.newest_preview

    @property
    def is_done(self) -> bool:
        """Whether every step is done, a metric stopped improving, or the user wants the result."""
        return self.step >= self._plan.steps or self._is_stalled or self._is_finishing

    def run(self) -> None:
        """Train to the end.

        Raises:
            Stopped: a stop was requested; the newest state is in a checkpoint.
            TrainingFailed: training diverged.
        """
        while self.advance(self._plan.steps):
            pass
        self._insight.close()
        # After the last step, because it runs extra steps; before the batches are closed.
        self.efficiency = self._insight.judge(lambda: self._stepper.make_bare(self.step - 1))

    def advance(self, max_steps: int) -> bool:
        """Run up to `max_steps` steps, with the evaluations and checkpoints due in between.

        Returns:
            Whether steps remain.
        """
        last = min(self.step + max_steps, self._plan.steps)
        while True:
            try:
                return self._advance_to(last)
            except TrainingFailed as error:
                self._roll_back(error)

    def _advance_to(self, last: int) -> bool:
        self._event_log.enter(Phase.TRAINING)
        self._account.begin()
        if self._training.on_divergence == "rollback" and not self._saving.has_any:
            # Ensures a checkpoint to go back to, even before the first step.
            self._save(is_best=False, metrics={})
        while True:
            if self._is_epoch_over():
                self._close_epoch()
            if any(self._stopping(self._should_stop())):
                self._save_and_stop()
            if self.step >= last or self.is_done:
                return not self.is_done
            with self._insight.step(self.step + 1, self._account.speed), self._watched():
                self._train_step()
            self._keep_books()

    def _roll_back(self, error: TrainingFailed) -> None:
        """Continue from the last good checkpoint with a lower learning rate, or raise the error."""
        state, training = self._state, self._training
        num_rollbacks = state.num_rollbacks
        if not rollback.may_roll_back(error.failure, training, num_rollbacks=num_rollbacks):
            raise error
        good = self._store.manifests()
        checkpoint = self._store.load_newest(good[-1].name)[0] if good else None
        if checkpoint is None:
            raise error
        manifest = checkpoint.manifest
        self._insight.leave_steps(self._account.speed)
        self._stepper.optimizer.zero_grad(set_to_none=True)
        self.restore(checkpoint)
        self._event_log.undo_after(self.step)
        self._ranks.wait()  # because saving replaces files that other ranks may still read
        state.num_rollbacks = num_rollbacks + 1
        training.optimizer.lr *= rollback.FACTOR
        text = rollback.describe_rollback(
            error.failure,
            step=self.step,
            lr=training.optimizer.lr,
            num_rollbacks=state.num_rollbacks,
        )
        self._event_log.warning("rolled_back", text)
        self._report_spec()
        # Save with the new rate, so that a run interrupted now resumes with it.
        self._save(is_best=manifest.is_best, metrics=manifest.metrics)

    def _watched(self) -> AbstractContextManager[None]:
        if self._guard is None:
            return nullcontext()
        return self._guard.step(self._stepper.optimizer, is_last=self.step + 1 == self._plan.steps)

    def _train_step(self) -> None:
        self._losses.add(self._stepper.run(self.step, lr=self._learning_rate()))
        self._state.step += 1
        if self.first_step_at is None:
            self.first_step_at = datetime.now(UTC)

    def _report_change(self, text: str) -> None:
        self._event_log.warning("out_of_memory", f"step {self.step + 1}: {text}")
        self._report_spec()

    def _report_spec(self) -> None:
        spec = self._setup.spec.model_dump(mode="json")
        self._event_log.write(EventKind.RESOLVED, spec=spec)

    def _learning_rate(self) -> float:
        return learning_rate(
            self._training.schedule,
            start=self._training.optimizer.lr,
            step=self.step,
            steps=self._plan.steps,
            steps_per_epoch=self._plan.steps_per_epoch,
            losses=self.history.series.get("val/loss", ()),
        )

    def _keep_books(self) -> None:
        is_progress_due, is_checkpoint_due = self._due(
            self._event_log.is_progress_due(), self._saving.is_due
        )
        if is_progress_due:
            self._losses.read()
            self._report_progress()
        elif self._losses.are_many:
            self._losses.read()
        if is_checkpoint_due and not self._is_epoch_over():
            self._insight.leave_steps(self._account.speed)
            self._save(is_best=False, metrics={})

    def _is_epoch_over(self) -> bool:
        at_end = self.step % self._plan.steps_per_epoch == 0 or self.step == self._plan.steps
        at_end |= self._is_finishing
        return at_end and self.step != self._state.evaluated_step

    def _close_epoch(self) -> None:
        """Evaluate and save a checkpoint."""
        self._losses.read()
        self._insight.leave_steps(self._account.speed)
        metrics: dict[str, float] | None = {}
        if self._setup.evaluate is not None:
            self._event_log.enter(Phase.EVALUATING)
            if self._ranks.is_first:
                with self._averaged():
                    metrics = self._setup.evaluate(should_stop=self._should_stop_scoring)
            metrics = self._ranks.broadcast(metrics)
            self._event_log.enter(Phase.TRAINING)
        if metrics is None:
            self._save_and_stop()
            return
        for name, value in metrics.items():
            if not math.isfinite(value):
                what = f"{name} is {value} after step {self.step}"
                raise report_diverged(what, self.step, self._store)
            self._account.add_point(name, value)
        if self._stepper.scaling.is_on:
            self._account.add_point("skipped_steps", self._stepper.scaling.num_skipped)
        is_best = self.best_metrics is None or not metrics or self._beats_best(metrics)
        if is_best:
            self._state.best_metrics = metrics
        self._state.evaluated_step = self.step
        self._save(is_best=is_best, metrics=metrics)
        self._is_stalled = self._patience.is_over(self.history)
        if self._insight.is_preview_due(is_last=self.is_done):
            with self._averaged():
                self._insight.show_samples(self.step)
        self._account.close_epoch()
        if self._is_stalled:
            self._event_log.message(self._patience.explain(self.history, epochs=self._plan.epochs))
        if self._event_log.is_progress_due() or self.is_done:
            self._report_progress()

    def _should_stop_scoring(self) -> bool:
        """Report progress and return whether to stop; called before each batch of an evaluation."""
        if self._event_log.is_progress_due():
            self._report_progress()
        return self._should_stop()

    def _averaged(self) -> AbstractContextManager[None]:
        ema = self._stepper.ema
        return nullcontext() if ema is None else ema.applied_to(self._setup.model)

    def _beats_best(self, metrics: dict[str, float]) -> bool:
        assert self.best_metrics is not None
        is_early = self.step <= self._setup.least_epochs * self._plan.steps_per_epoch
        return is_early or self._setup.is_better(metrics, self.best_metrics)

    def _report_progress(self) -> None:
        batch_size = self._training.batch_size
        assert batch_size != "auto"
        self._account.say(lr=self._learning_rate(), batch_size=batch_size)

    def _save_and_stop(self) -> None:
        self._losses.read()
        if not self._saving.is_current:
            self._save(is_best=False, metrics={})
        self._event_log.flush_points()
        raise Stopped

    def _save(self, *, is_best: bool, metrics: Mapping[str, float]) -> None:
        self._losses.read()
        self._saving.save(is_best=is_best, metrics=metrics)
