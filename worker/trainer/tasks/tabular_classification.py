"""Behaviour of the task `tabular-classification`."""

from collections.abc import Mapping
from functools import partial

import torch

from redkiln.spec import JobSpec
from redkiln.tasks.tabular_classification import NAME, TabularClassificationSpec
from worker.export.classification import Classification
from worker.export.subject import Subject
from worker.jobdir import Order
from worker.trainer.evaluate import evaluate_classifier
from worker.trainer.report import Report
from worker.trainer.tables.batches import ResidentRows
from worker.trainer.tables.work import open_table, open_table_subject, prepare_table
from worker.trainer.updates.losses import Loss, build_classifier_loss, count_classes
from worker.trainer.validation import is_better_classifier
from worker.trainer.work import Work

__all__ = ["NAME", "open_subject", "prepare"]


def prepare(
    order: Order,
    spec: JobSpec,
    *,
    device: torch.device,
    report: Report,
    reading: str | None = None,
) -> Work:
    """Open the table, resolve the spec, and build the model on the device.

    Raises:
        TrainingFailed: the table or the spec cannot be trained on.
    """
    assert isinstance(spec, TabularClassificationSpec)
    job = open_table(order, spec, report=report, reading=reading)
    return prepare_table(
        job,
        order,
        spec,
        device=device,
        report=report,
        build_loss=partial(_build_loss, spec, job.table.index.classes),
        build_score=lambda _loss: evaluate_classifier,
        is_better=is_better_classifier,
    )


def open_subject(
    order: Order,
    spec: JobSpec,
    *,
    weights: Mapping[str, torch.Tensor],
    report: Report,
    reading: str | None = None,
) -> Subject:
    """The trained network with the rows that it is judged on.

    Raises:
        TrainingFailed: the table is gone.
    """
    assert isinstance(spec, TabularClassificationSpec)
    job = open_table(order, spec, report=report, reading=reading)
    scoring = Classification(job.table.index.classes, metrics=("accuracy", "loss", "macro_f1"))
    return open_table_subject(job, spec, weights=weights, scoring=scoring)


def _build_loss(spec: TabularClassificationSpec, classes: list[str], rows: ResidentRows) -> Loss:
    return build_classifier_loss(
        spec.training,
        classes=classes,
        counts=count_classes(rows.targets("train"), num_classes=len(classes)),
        device=rows.device,
    )
