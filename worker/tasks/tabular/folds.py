"""Cross-validation of a table: one model for each fold, trained without it and scored on it.

A row's fold follows from its frozen rank in its class, so every job on a data set has the same
folds, and each fold has its share of every class. The exported model is another one: it is
trained on the training split as without folds, because one model of the usual size runs everywhere,
and its gate compares it with its own library. The folds say how well such a model does.

Means, deviations and categories of the columns are those of all training rows.

Shapes: N training rows.
"""

import dataclasses
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from redkiln.events import EventWriter
from redkiln.status import Phase
from redkiln.views.comparison import AT_THRESHOLD, CrossValidation, ThresholdChoice
from worker.checkpoints.checkpoint import CheckpointStore
from worker.export.baselines.compare import Rival, compare_folds, find_budget, score_baselines
from worker.export.card.markdown import number
from worker.export.scoring.threshold import macro_f1_at
from worker.export.target import ExportTarget, Scored, Scoring
from worker.jobdir import JobDir, Order
from worker.process.event_log import EventLog
from worker.tasks.tabular.opened import TableJob, TabularSpec
from worker.tasks.tabular.setup import open_table_target
from worker.trainer.estimators.loop import EstimatorLoop
from worker.trainer.estimators.setup import EstimatorSetup
from worker.trainer.insight.insight import Insight
from worker.trainer.loop.loop import Loop
from worker.trainer.loop.trainer_process import TrainerProcess
from worker.trainer.setup import TrainingSetup
from worker.trainer.tables.initial_weights import TableStart
from worker.trainer.tables.table import Table

SCORED_BATCH = 1024


class _Quiet(EventLog):
    """Keeps the events of a fold out of the job: its curves are not those of the job."""

    def log(self, text: str) -> None:
        """Write nothing."""


def take_fold(table: Table, fold: int, *, folds: int) -> Table:
    """Return the training rows as a separate table, whose test split is one fold.

    Args:
        table: The whole table; its test split is left out.
        fold: Number of the fold, from 0.
        folds: Number of all folds.
    """
    num = table.index.num_train
    ranks = table.ranks[:num]
    held = ranks % folds == fold
    order = np.concatenate([np.flatnonzero(~held), np.flatnonzero(held)])
    # Ranks stay without gaps: a validation split is taken by them.
    kept = ranks - (ranks - fold + folds - 1) // folds
    index = table.index.model_copy(
        update={
            "num_train": int((~held).sum()),
            "num_test": int(held.sum()),
            "num_validation": 0,
        }
    )
    return Table(
        index=index,
        numbers=table.numbers[order],
        codes=table.codes[order],
        targets=table.targets[order],
        ranks=np.where(held, ranks // folds, kept)[order].astype(np.int32),
        labels=None if table.labels is None else table.labels[order],
    )


@dataclass(frozen=True)
class FoldRunner:
    """Trains and scores the folds of a job.

    Attributes:
        order: The job's order.
        spec: The resolved spec.
        device: Device to train on.
        event_log: Receives a message about each fold.
        should_stop: Returns whether somebody asked to stop.
        prepare: Prepares a fold for a network.
        prepare_estimator: Prepares a fold for an estimator.
        scoring: Scores outputs.
    """

    order: Order
    spec: TabularSpec
    device: torch.device
    event_log: EventLog
    should_stop: Callable[[], bool]
    prepare: Callable[[TableJob, EventLog], TrainingSetup]
    prepare_estimator: Callable[[TableJob, EventLog], EstimatorSetup]
    scoring: Scoring

    def run(self, job: TableJob) -> CrossValidation:
        """Train and score all folds of an opened table."""
        folds, found = self.spec.num_folds, list[dict[str, float]]()
        held_out, rivals = list[Scored](), list[list[Rival]]()
        train = job.table.split(validation_fraction=self.spec.training.validation_fraction)["train"]
        judged_by = self.scoring.choose_compared(job.table.targets[train])
        self.event_log.enter(Phase.EVALUATING)
        for fold in range(folds):
            self.event_log.show_activity(f"training fold {fold + 1} of {folds}")
            table = take_fold(job.table, fold, folds=folds)
            # A resumed job would otherwise take what its checkpoint says of columns as learnt.
            start, began = TableStart(self.spec.model), time.perf_counter()
            target = self._train(dataclasses.replace(job, table=table, start=start))
            budget = find_budget(time.perf_counter() - began)
            held_out.append(_predict_fold(target))
            rivals.append(score_baselines(target, seconds=budget))
            found.append(target.scoring.score(*held_out[-1]))
            self.event_log.message(
                f"fold {fold + 1} of {folds}: {judged_by} {number(found[-1][judged_by])}"
            )
        self.event_log.show_activity(None)
        for scores, at_threshold in zip(
            found, score_at_thresholds(self.scoring, held_out), strict=True
        ):
            if at_threshold is not None:
                scores[AT_THRESHOLD] = at_threshold
        return CrossValidation(
            folds=found,
            threshold=_choose_threshold(self.scoring, held_out),
            comparison=compare_folds(
                self.scoring, held_out=_join(held_out), folds=rivals, metric=judged_by
            ),
        )

    def _train(self, job: TableJob) -> ExportTarget:
        with tempfile.TemporaryDirectory(prefix="fold-") as folder:
            return self._train_in(JobDir(Path(folder)), job)

    def _train_in(self, job_dir: JobDir, job: TableJob) -> ExportTarget:
        store = CheckpointStore(job_dir.checkpoints_dir)
        with EventWriter(job_dir.events_path) as writer:
            quiet = _Quiet(writer, progress_seconds=float("inf"))
            if self.spec.is_estimator:
                self._grow(job, store, quiet)
            else:
                self._run_loop(job, job_dir, store, quiet)
        newest = store.manifests()[-1]
        checkpoint = store.load((store.find_best() or newest).name)
        return open_table_target(
            job, self.order, self.spec, weights=checkpoint.weights, scoring=self.scoring
        )

    def _grow(self, job: TableJob, store: CheckpointStore, quiet: EventLog) -> None:
        setup = self.prepare_estimator(job, quiet)
        EstimatorLoop(setup, store=store, event_log=quiet, should_stop=self.should_stop).run()

    def _run_loop(
        self, job: TableJob, job_dir: JobDir, store: CheckpointStore, quiet: EventLog
    ) -> None:
        setup = self.prepare(job, quiet)
        insight = Insight(
            setup, job_dir=job_dir, order=self.order, event_log=quiet, device=self.device
        )
        process = TrainerProcess(self.device, quiet, self.should_stop)
        loop = Loop(setup, process, store=store, insight=insight)
        while loop.advance(setup.plan.steps):
            pass
        insight.close()
        setup.close()


def score_at_thresholds(scoring: Scoring, held_out: list[Scored]) -> list[float | None]:
    """Return macro F1 of each fold at the threshold that the rows of the other folds choose.

    At a threshold that its own rows helped to choose, a fold would look better than new rows do.
    It is None without a threshold.

    Args:
        scoring: Chooses the thresholds.
        held_out: Outputs and targets of each fold, by a model that was trained without it.
    """
    found: list[float | None] = []
    for fold, own in enumerate(held_out):
        choice = _choose_threshold(scoring, [*held_out[:fold], *held_out[fold + 1 :]])
        found.append(None if choice is None else macro_f1_at(choice, own))
    return found


def _choose_threshold(scoring: Scoring, held_out: list[Scored]) -> ThresholdChoice | None:
    return scoring.choose_threshold(lambda: _join(held_out))


def _join(held_out: list[Scored]) -> Scored:
    outputs, targets = (np.concatenate(part) for part in zip(*held_out, strict=True))
    return outputs, targets


def _predict_fold(target: ExportTarget) -> Scored:
    """Return outputs and targets of the rows that a fold's model was trained without."""
    rows = target.rows["test"]
    outputs = [
        target.exportable.predict(target.samples.feed(target.samples.get(some)))
        for some in np.array_split(rows, -(-len(rows) // SCORED_BATCH))
    ]
    return np.concatenate(outputs), target.targets[rows]
