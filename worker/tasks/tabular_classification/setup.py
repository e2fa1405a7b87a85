"""The task `tabular-classification`."""

from collections.abc import Mapping
from functools import partial

import torch

from redkiln.spec.job_spec import JobSpec
from redkiln.tasks.tabular_classification import TabularClassificationSpec
from worker.export.scoring.classification import Classification
from worker.export.target import ExportTarget
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.tasks.tabular.opened import open_table
from worker.tasks.tabular.setup import open_table_target, prepare_table
from worker.trainer.estimators.setup import EstimatorSetup
from worker.trainer.optim.losses import Loss, build_classifier_loss, count_classes
from worker.trainer.scoring.evaluate import evaluate_classifier
from worker.trainer.setup import TrainingSetup
from worker.trainer.tables.batches import ResidentRows


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
    assert isinstance(spec, TabularClassificationSpec)
    job = open_table(order, spec, event_log=event_log, reading=reading)
    return prepare_table(
        job,
        order,
        spec,
        device=device,
        event_log=event_log,
        build_loss=partial(_build_loss, spec, job.table.index.classes),
        build_score=lambda _loss: evaluate_classifier,
        is_better=partial(is_better, by_f1=spec.training.class_weights is not None),
    )


def prepare_estimator(
    order: Order, spec: JobSpec, *, event_log: EventLog, reading: str | None = None
) -> EstimatorSetup:
    """Open the table for a model that is not a network.

    Raises:
        TrainingFailed: the table or the spec cannot be trained.
    """
    # Imported here, because networks do not need scikit-learn.
    from worker.tasks.tabular.boosting.setup import prepare_boosting

    assert isinstance(spec, TabularClassificationSpec)
    job = open_table(order, spec, event_log=event_log, reading=reading)
    better = partial(is_better, by_f1=spec.training.class_weights is not None)
    return prepare_boosting(job, order, spec, event_log=event_log, is_better=better)


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
    assert isinstance(spec, TabularClassificationSpec)
    job = open_table(order, spec, event_log=event_log, reading=reading)
    scoring = Classification(job.table.index.classes)
    return open_table_target(job, order, spec, weights=weights, scoring=scoring)


def _build_loss(spec: TabularClassificationSpec, classes: list[str], rows: ResidentRows) -> Loss:
    return build_classifier_loss(
        spec.training,
        classes=classes,
        counts=count_classes(rows.targets("train"), num_classes=len(classes)),
        device=rows.device,
    )


def is_better(metrics: dict[str, float], best: dict[str, float], *, by_f1: bool) -> bool:
    """Return whether the loss on the validation split is smaller.

    Args:
        metrics: Metrics of the newest epoch.
        best: Metrics of the best epoch so far.
        by_f1: Whether a higher macro F1 counts first. With class weights the probabilities are
            wrong on purpose, and so is the loss.
    """
    gained = metrics["val/macro_f1"] - best["val/macro_f1"] if by_f1 else 0.0
    return gained > 0 or (gained == 0 and metrics["val/loss"] < best["val/loss"])
