"""Behaviour of the task `tabular-regression`.

Training sees targets with mean 0 and standard deviation 1, by the training split, or by that of the
job whose weights it starts from; the exported model gives them in their own unit, and so do the
metrics.
"""

from collections.abc import Mapping
from functools import partial

import torch
from torch.nn import functional

from redkiln.spec.job_spec import JobSpec
from redkiln.tasks.tabular_regression import TabularRegressionSpec
from worker.export.scoring.regression import Regression
from worker.export.target import Subject
from worker.jobdir import Order
from worker.process.event_log import Report
from worker.tasks.tabular.setup import open_table, open_table_subject, prepare_table
from worker.trainer.optim.losses import Loss
from worker.trainer.scoring.evaluate import evaluate_regressor
from worker.trainer.setup import Work

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
    report: Report,
    reading: str | None = None,
) -> Work:
    """Open the table, resolve the spec, and build the model on the device.

    Raises:
        TrainingFailed: the table or the spec cannot be trained on.
    """
    assert isinstance(spec, TabularRegressionSpec)
    job = open_table(order, spec, report=report, reading=reading)
    assert job.target is not None
    loss, (_, std) = LOSSES[spec.training.loss], job.target
    return prepare_table(
        job,
        order,
        spec,
        device=device,
        report=report,
        build_loss=lambda _rows: loss,
        build_score=lambda loss: partial(evaluate_regressor, loss=loss, std=std),
        is_better=is_better,
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
    assert isinstance(spec, TabularRegressionSpec)
    job = open_table(order, spec, report=report, reading=reading)
    index = job.table.index
    scoring = Regression(index.target, mean=index.target_mean, std=index.target_std)
    return open_table_subject(job, spec, weights=weights, scoring=scoring)


def is_better(metrics: dict[str, float], best: dict[str, float]) -> bool:
    """The smaller error wins."""
    return metrics["val/rmse"] < best["val/rmse"]
