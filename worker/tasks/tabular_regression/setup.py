"""The task `tabular-regression`.

Training uses targets with mean 0 and standard deviation 1, by the training split or by that of the
job whose weights it starts from. The exported model predicts in the target's own unit, which
metrics use too.
"""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch.nn import functional

from redkiln.spec.job_spec import JobSpec
from redkiln.tasks.tabular_regression import TabularRegressionSpec
from redkiln.views.comparison import CrossValidation
from worker.export.scoring.regression import Regression
from worker.export.target import ExportTarget
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.tasks.tabular.folds import FoldRunner
from worker.tasks.tabular.opened import TableJob, TabularSpec, open_table
from worker.tasks.tabular.setup import open_table_target, prepare_table
from worker.trainer.estimators.setup import EstimatorSetup
from worker.trainer.optim.losses import Loss
from worker.trainer.scoring.evaluate import evaluate_regressor
from worker.trainer.setup import TrainingSetup

LOSSES: dict[str, Loss] = {
    "mse": functional.mse_loss,
    "huber": functional.huber_loss,
    "mae": functional.l1_loss,
}


def prepare(
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
    assert isinstance(spec, TabularRegressionSpec)
    job = open_table(order, spec, event_log=event_log, reading=reading)
    return _prepare(job, order, spec, device=device, event_log=event_log)


def prepare_estimator(
    order: Order, spec: JobSpec, *, event_log: EventLog, reading: str | None = None
) -> EstimatorSetup:
    """Open the table for a model that is not a network.

    Raises:
        TrainingFailed: the table or the spec cannot be trained.
    """
    assert isinstance(spec, TabularRegressionSpec)
    job = open_table(order, spec, event_log=event_log, reading=reading)
    return _prepare_estimator(job, order, spec, event_log=event_log)


def cross_validate(
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
    assert isinstance(spec, TabularRegressionSpec)
    job = open_table(order, spec, event_log=event_log)
    runner = FoldRunner(
        order,
        spec,
        device=device,
        event_log=event_log,
        should_stop=should_stop,
        prepare=_prepare,
        prepare_estimator=_prepare_estimator,
        scoring=_build_scoring(job),
    )
    return runner.run(job)


def open_target(
    order: Order,
    spec: JobSpec,
    *,
    weights: Mapping[str, torch.Tensor],
    event_log: EventLog,
    reading: str | None = None,
) -> ExportTarget:
    """Return the trained network with the rows that it is scored on.

    Raises:
        TrainingFailed: the table is missing.
    """
    assert isinstance(spec, TabularRegressionSpec)
    job = open_table(order, spec, event_log=event_log, reading=reading)
    scoring = _build_scoring(job)
    return open_table_target(job, order, spec, weights=weights, scoring=scoring)


def _prepare(
    job: TableJob, order: Order, spec: TabularSpec, *, device: torch.device, event_log: EventLog
) -> TrainingSetup:
    assert isinstance(spec, TabularRegressionSpec)
    assert job.target is not None
    loss, (_, std) = LOSSES[spec.training.loss], job.target
    return prepare_table(
        job,
        order,
        spec,
        device=device,
        event_log=event_log,
        build_loss=lambda _rows: loss,
        build_score=lambda loss: partial(evaluate_regressor, loss=loss, std=std),
        is_better=is_better,
    )


def _prepare_estimator(
    job: TableJob, order: Order, spec: TabularSpec, *, event_log: EventLog
) -> EstimatorSetup:
    # Imported here, because networks do not need scikit-learn.
    from worker.tasks.tabular.boosting.setup import prepare_boosting

    return prepare_boosting(job, order, spec, event_log=event_log, is_better=is_better)


def _build_scoring(job: TableJob) -> Regression:
    index = job.table.index
    return Regression(index.target, mean=index.target_mean, std=index.target_std)


def is_better(metrics: dict[str, float], best: dict[str, float]) -> bool:
    """Return whether the error is smaller."""
    return metrics["val/rmse"] < best["val/rmse"]
