"""An opened table, as every model of a table starts from it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from redkiln.failure import FailureCode
from redkiln.tasks.tabular_classification import TabularClassificationSpec
from redkiln.tasks.tabular_regression import TabularRegressionSpec
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.tasks.tabular.target_choice import find_log_reason
from worker.trainer.models.from_job import refuse_start
from worker.trainer.models.table_network import TableShape
from worker.trainer.tables.builtins import open_builtin_table
from worker.trainer.tables.initial_weights import TableStart, find_table_start
from worker.trainer.tables.reading import TableReading, read_as, warn_of_unlike
from worker.trainer.tables.table import Preparation, Table, learn_preparation, load_table
from worker.trainer.tables.target_scale import TargetScale, find_no_log

NARROW = 1e-5
"""Ratio of standard deviation to mean below which a column keeps few digits in float32."""

TabularSpec = TabularClassificationSpec | TabularRegressionSpec


@dataclass(frozen=True)
class TableJob:
    """An opened table and what was derived from it.

    Attributes:
        target: How a regression's targets are standardised; None for classes.
        start: Source of the model's initial weights.
    """

    table: Table
    preparation: Preparation
    shape: TableShape
    target: TargetScale | None
    start: TableStart

    @property
    def reading(self) -> TableReading:
        """How the network reads the rows (`TrainingSetup.reading`)."""
        return TableReading.of(self.table, self.preparation, scale=self.target)

    @property
    def is_log(self) -> bool:
        """Whether the model learns the logarithms of a regression's targets."""
        return self.target is not None and self.target.is_log

    @property
    def targets(self) -> NDArray[np.int64] | NDArray[np.float32]:
        """Labels, 0 or 1 for each class of a row with several labels, or standardised values."""
        if self.table.labels is not None:
            return self.table.labels.astype(np.float32)
        if self.target is None:
            return self.table.targets.astype(np.int64)
        return self.target.standardise(self.table.targets.astype(np.float64))

    def resolve_target(self, spec: TabularSpec) -> TabularSpec:
        """Write into a regression's spec what `target_transform: auto` stands for."""
        if isinstance(spec, TabularRegressionSpec):
            spec.training.target_transform = "log" if self.is_log else "none"
        return spec

    def warn(self, event_log: EventLog) -> None:
        """Say why logarithms are learnt; warn of columns and targets that are hard to learn."""
        if self.target is not None and self.target.reason:
            name = self.table.index.target
            event_log.message(
                f"The job is trained on the logarithm of {name}, because {self.target.reason}. To "
                f"train on {name} itself: --set training.target_transform=none"
            )
        _warn_of_columns(self.table, event_log)
        _warn_of_target(self, event_log)


def open_table(
    order: Order, spec: TabularSpec, *, event_log: EventLog, reading: str | None = None
) -> TableJob:
    """Read an order's table in the way its model needs.

    Args:
        order: Order of the job.
        spec: The job's spec, possibly resolved already.
        event_log: Receives warnings about values that another job's model does not know.
        reading: Reading from the checkpoint that a run resumes from, or that is exported.

    Raises:
        TrainingFailed: the table is missing, is for another task or has no columns or rows to
            train on; or the model cannot start from the weights in the spec.
    """
    task = spec.task
    table = load_table(_locate(order))
    index = table.index
    if index.task != task:
        message = (
            f"data set {order.required_dataset.name} is for {index.task}, not for {task}; remove "
            f"task, or set it to {index.task}"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/task")
    if not table.numeric and not table.categorical:
        message = "the table has no numeric or categorical column to train on"
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/dataset")
    if not index.num_train or not index.num_test:
        what = "test" if index.num_train else "training"
        message = f"the table has no {what} rows; training needs a training and a test split"
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/dataset")
    start = find_table_start(spec.model, order, kept=reading)
    if start.reading is None:
        preparation = learn_preparation(table)
    else:
        read = read_as(table, start.reading, whose=start.whose)
        if start.job is not None:
            warn_of_unlike(table, read, event_log)
        table, preparation = read, start.reading.preparation
    is_regression = task == "tabular-regression"
    shape = TableShape(
        num_numbers=preparation.num_numbers,
        num_categories=[len(column.categories) for column in table.categorical],
        num_classes=None if is_regression else len(index.classes),
        has_labels=table.labels is not None,
    )
    return TableJob(table, preparation, shape, _find_scale(table, spec, start, preparation), start)


def _find_scale(
    table: Table, spec: TabularSpec, start: TableStart, preparation: Preparation
) -> TargetScale | None:
    """Return how the targets are standardised; None for classes.

    Raises:
        TrainingFailed: The targets have no logarithm, or the weights are for another scale.
    """
    if not isinstance(spec, TabularRegressionSpec):
        return None
    index, asked = table.index, spec.training.target_transform
    if start.reading is None or start.reading.target != index.target:
        reason = None
        # The exponential enlarges the rounding of other files than fp32.
        is_exact = all(variant.name == "fp32" for variant in spec.export.variants)
        if asked == "auto" and spec.training.loss == "mse" and is_exact:
            rows = table.split(validation_fraction=spec.training.validation_fraction)["train"]
            reason = find_log_reason(table, preparation, rows)
        if asked == "log" or reason is not None:
            return TargetScale.of_logs(table, reason=reason or "")
        return TargetScale(index.target_mean, index.target_std)
    # The network's output has the same meaning as before.
    scale = start.reading.target_scale
    assert scale is not None
    theirs = "log" if scale.is_log else "none"
    if start.job is not None and asked not in ("auto", theirs):
        message = (
            f"{start.whose} was trained with target_transform {theirs}; set it to {theirs} to "
            "start from that job's weights"
        )
        raise refuse_start(message, "/training/target_transform")
    if scale.is_log and (refusal := find_no_log(table)):
        raise refuse_start(refusal, "/training/target_transform")
    return scale


def _locate(order: Order) -> Path:
    dataset = order.required_dataset
    if dataset.kind == "builtin":
        name = dataset.name.removeprefix("builtin:")
        return open_builtin_table(name, cache_dir=order.paths.cache_dir)
    if dataset.index_path is None:
        message = f"the worker has no table for data set {dataset.name}"
        raise TrainingFailed(FailureCode.DATASET_UNAVAILABLE, message)
    return Path(dataset.index_path)


def _warn_of_columns(table: Table, event_log: EventLog) -> None:
    empty = [
        *(c.name for c in table.numeric if c.minimum is None),
        *(c.name for c in table.categorical if not c.categories),
    ]
    if empty:
        message = f"columns without any value in the training split are useless: {_few(empty)}"
        event_log.warning("empty_columns", message)
    narrow = [c.name for c in table.numeric if abs(c.std) < NARROW * abs(c.mean)]
    constant = {c.name for c in table.numeric if c.minimum == c.maximum}
    if coarse := [name for name in narrow if name not in constant]:
        message = (
            f"columns of large, similar numbers lose digits in float32: {_few(coarse)}; subtract "
            "a constant close to their mean before you register the table"
        )
        event_log.warning("coarse_columns", message)


def _warn_of_target(job: TableJob, event_log: EventLog) -> None:
    if job.target is None:
        return
    mean, std = job.table.index.target_mean, job.table.index.target_std
    if abs(std) < NARROW * abs(mean):
        message = (
            f"the values of {job.table.index.target} are large but differ little ({mean:g} with a "
            f"standard deviation of {std:g}); the model predicts in float32, which loses their "
            "last digits; subtract a constant close to the mean before you register the table"
        )
        event_log.warning("coarse_target", message)


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown
