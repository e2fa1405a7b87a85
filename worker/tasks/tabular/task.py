"""What both tabular tasks do; each one adds its spec, its loss and its scores."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from redkiln.spec.job_spec import JobSpec
from redkiln.tasks.tabular_classification import TabularClassificationSpec
from redkiln.tasks.tabular_regression import TabularRegressionSpec
from redkiln.views.comparison import CrossValidation
from worker.export.target import ExportTarget, Scoring
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.tasks.tabular.folds import FoldRunner
from worker.tasks.tabular.opened import TableJob, open_table
from worker.tasks.tabular.setup import open_table_target, prepare_table
from worker.trainer.estimators.setup import EstimatorSetup
from worker.trainer.optim.losses import Loss
from worker.trainer.scoring.validation import Score
from worker.trainer.setup import TrainingSetup
from worker.trainer.tables.batches import ResidentRows

Spec = TypeVar("Spec", TabularClassificationSpec, TabularRegressionSpec)
IsBetter = Callable[[dict[str, float], dict[str, float]], bool]


@dataclass(frozen=True)
class TableTask(Generic[Spec]):
    """A task on tables. Its public functions are those of `worker.tasks.Task`.

    Attributes:
        spec_type: Type of the task's spec.
        build_loss: Builds the loss; it may depend on counts of the rows.
        build_score: Builds the function that scores the validation split, from the loss.
        build_is_better: Builds the function that returns whether the first metrics beat the second.
        build_scoring: Builds what scores the exported model.
    """

    spec_type: type[Spec]
    build_loss: Callable[[Spec, TableJob, ResidentRows], Loss]
    build_score: Callable[[TableJob, Loss], Score]
    build_is_better: Callable[[Spec], IsBetter]
    build_scoring: Callable[[TableJob], Scoring]

    def prepare(
        self,
        order: Order,
        spec: JobSpec,
        *,
        device: torch.device,
        event_log: EventLog,
        reading: str | None = None,
    ) -> TrainingSetup:
        """Open the table, resolve the spec, and build the model on the device.

        Raises:
            TrainingFailed: the table or the spec cannot be trained.
        """
        known = self._of_this_task(spec)
        job = open_table(order, known, event_log=event_log, reading=reading)
        return self._prepare(job, order, known, device=device, event_log=event_log)

    def prepare_estimator(
        self, order: Order, spec: JobSpec, *, event_log: EventLog, reading: str | None = None
    ) -> EstimatorSetup:
        """Open the table for a model that is not a network.

        Raises:
            TrainingFailed: the table or the spec cannot be trained.
        """
        known = self._of_this_task(spec)
        job = open_table(order, known, event_log=event_log, reading=reading)
        return self._prepare_estimator(job, order, known, event_log=event_log)

    def cross_validate(
        self,
        order: Order,
        spec: JobSpec,
        *,
        device: torch.device,
        event_log: EventLog,
        should_stop: Callable[[], bool],
    ) -> CrossValidation:
        """Train and score a model for each fold.

        Raises:
            Stopped: a stop was requested.
            TrainingFailed: the table is missing, or a fold cannot be trained.
        """
        known = self._of_this_task(spec)
        job = open_table(order, known, event_log=event_log)
        runner = FoldRunner(
            order,
            known,
            device=device,
            event_log=event_log,
            should_stop=should_stop,
            prepare=lambda fold, quiet: self._prepare(
                fold, order, known, device=device, event_log=quiet
            ),
            prepare_estimator=lambda fold, quiet: self._prepare_estimator(
                fold, order, known, event_log=quiet
            ),
            scoring=self.build_scoring(job),
        )
        return runner.run(job)

    def open_target(
        self,
        order: Order,
        spec: JobSpec,
        *,
        weights: Mapping[str, torch.Tensor],
        event_log: EventLog,
        reading: str | None = None,
    ) -> ExportTarget:
        """Return the trained model with the rows that it is scored on.

        Raises:
            TrainingFailed: the table is missing.
        """
        known = self._of_this_task(spec)
        job = open_table(order, known, event_log=event_log, reading=reading)
        scoring = self.build_scoring(job)
        return open_table_target(job, order, known, weights=weights, scoring=scoring)

    def _of_this_task(self, spec: JobSpec) -> Spec:
        assert isinstance(spec, self.spec_type)
        return spec

    def _prepare(
        self, job: TableJob, order: Order, spec: Spec, *, device: torch.device, event_log: EventLog
    ) -> TrainingSetup:
        return prepare_table(
            job,
            order,
            spec,
            device=device,
            event_log=event_log,
            build_loss=lambda rows: self.build_loss(spec, job, rows),
            build_score=lambda loss: self.build_score(job, loss),
            is_better=self.build_is_better(spec),
        )

    def _prepare_estimator(
        self, job: TableJob, order: Order, spec: Spec, *, event_log: EventLog
    ) -> EstimatorSetup:
        # Imported here, because networks do not need scikit-learn.
        from worker.tasks.tabular.boosting.setup import prepare_boosting

        better = self.build_is_better(spec)
        return prepare_boosting(job, order, spec, event_log=event_log, is_better=better)
