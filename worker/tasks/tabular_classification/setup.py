"""Behaviour of the task `tabular-classification`."""

from collections.abc import Mapping
from functools import partial

import torch

from redkiln.spec.job_spec import JobSpec
from redkiln.tasks.tabular_classification import TabularClassificationSpec
from worker.export.scoring.classification import Classification
from worker.export.target import Subject
from worker.jobdir import Order
from worker.process.event_log import Report
from worker.tasks.tabular.setup import open_table, open_table_subject, prepare_table
from worker.trainer.optim.losses import Loss, build_classifier_loss, count_classes
from worker.trainer.scoring.evaluate import evaluate_classifier
from worker.trainer.scoring.validation import is_better_classifier
from worker.trainer.setup import Work
from worker.trainer.tables.batches import ResidentRows


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
