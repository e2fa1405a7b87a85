"""The task `tabular-classification`."""

from collections.abc import Callable, Mapping
from functools import partial

import torch

from redkiln.spec.job_spec import JobSpec
from redkiln.tasks.tabular_classification import TabularClassificationSpec
from redkiln.views.comparison import CrossValidation
from worker.export.scoring.classification import Classification
from worker.export.scoring.multi_label import MultiLabel
from worker.export.target import ExportTarget, Scoring
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.tasks.tabular.folds import FoldRunner
from worker.tasks.tabular.opened import TableJob, TabularSpec, open_table
from worker.tasks.tabular.setup import open_table_target, prepare_table
from worker.trainer.estimators.setup import EstimatorSetup
from worker.trainer.optim.label_losses import build_label_loss
from worker.trainer.optim.losses import Loss, build_classifier_loss, count_classes
from worker.trainer.scoring.evaluate import evaluate_classifier
from worker.trainer.scoring.labels import evaluate_labels
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
    return _prepare(job, order, spec, device=device, event_log=event_log)


def prepare_estimator(
    order: Order, spec: JobSpec, *, event_log: EventLog, reading: str | None = None
) -> EstimatorSetup:
    """Open the table for a model that is not a network.

    Raises:
        TrainingFailed: the table or the spec cannot be trained.
    """
    assert isinstance(spec, TabularClassificationSpec)
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
    assert isinstance(spec, TabularClassificationSpec)
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
    assert isinstance(spec, TabularClassificationSpec)
    job = open_table(order, spec, event_log=event_log, reading=reading)
    scoring = _build_scoring(job)
    return open_table_target(job, order, spec, weights=weights, scoring=scoring)


def _prepare(
    job: TableJob, order: Order, spec: TabularSpec, *, device: torch.device, event_log: EventLog
) -> TrainingSetup:
    assert isinstance(spec, TabularClassificationSpec)
    has_labels = job.table.labels is not None
    return prepare_table(
        job,
        order,
        spec,
        device=device,
        event_log=event_log,
        build_loss=partial(_build_loss, spec, job.table.index.classes),
        build_score=lambda _loss: evaluate_labels if has_labels else evaluate_classifier,
        is_better=_build_judge(spec),
    )


def _prepare_estimator(
    job: TableJob, order: Order, spec: TabularSpec, *, event_log: EventLog
) -> EstimatorSetup:
    # Imported here, because networks do not need scikit-learn.
    from worker.tasks.tabular.boosting.setup import prepare_boosting

    better = _build_judge(spec)
    return prepare_boosting(job, order, spec, event_log=event_log, is_better=better)


def _build_judge(spec: TabularSpec) -> Callable[[dict[str, float], dict[str, float]], bool]:
    assert isinstance(spec, TabularClassificationSpec)
    return partial(is_better, by_f1=spec.training.class_weights is not None)


def _build_scoring(job: TableJob) -> Scoring:
    classes = job.table.index.classes
    return Classification(classes) if job.table.labels is None else MultiLabel(classes)


def _build_loss(spec: TabularClassificationSpec, classes: list[str], rows: ResidentRows) -> Loss:
    targets = rows.targets("train")
    if targets.ndim == 2:
        return build_label_loss(
            spec.training,
            classes=classes,
            counts=targets.sum(dim=0).long().tolist(),
            num=len(targets),
            device=rows.device,
        )
    return build_classifier_loss(
        spec.training,
        classes=classes,
        counts=count_classes(targets, num_classes=len(classes)),
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
