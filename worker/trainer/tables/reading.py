"""How a network reads a table's rows, apart from its weights; stored with them.

The meaning of its inputs depends on the mean and standard deviation of each numeric column, on the
codes of categories, and on which columns have a flag for missing values. The meaning of a
regression's output depends on the target's scale. A job that starts from a network's weights reads
its own table in the same way.
"""

from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from redkiln.tables import Column, find_other_column
from worker.process.event_log import EventLog
from worker.trainer.models.from_job import refuse_start
from worker.trainer.tables.table import MAX_DEVIATIONS, Preparation, Table
from worker.trainer.tables.target_scale import TargetScale

FAR_SHARE = 0.01
"""Share of a column's training values that may be clipped without a warning."""


class ColumnReading(BaseModel):
    """How one feature column is read.

    Attributes:
        categories: Categories of a categorical column, in the order of their codes.
        mean: Mean of a numeric column.
        std: Standard deviation of a numeric column.
        is_flagged: Whether the network has an input that flags missing numbers.
    """

    name: str
    type: str
    categories: list[str] = []
    mean: float = 0.0
    std: float = 1.0
    is_flagged: bool = False


class TableReading(BaseModel):
    """How a network reads rows and, for a regression, what its output means.

    Attributes:
        columns: Numeric and categorical columns in the order of the network's inputs.
        target: Name of the target column.
        scale: Mean and standard deviation of a regression's targets; None for classes.
        is_log: Whether `scale` is that of their logarithms.
        log_reason: Why the job learns logarithms, if it chose that itself.
    """

    columns: list[ColumnReading]
    target: str
    scale: tuple[float, float] | None
    is_log: bool = False
    log_reason: str = ""

    @classmethod
    def of(cls, table: Table, preparation: Preparation, *, scale: TargetScale | None) -> Self:
        """Return the reading that a job learns from its own table."""
        flagged = {table.numeric[place].name for place in preparation.flagged}
        columns = [
            ColumnReading(
                name=column.name,
                type=column.type,
                categories=column.categories,
                mean=column.mean,
                std=column.std,
                is_flagged=column.name in flagged,
            )
            for column in table.index.columns
        ]
        return cls(
            columns=columns,
            target=table.index.target,
            scale=None if scale is None else (scale.mean, scale.std),
            is_log=scale is not None and scale.is_log,
            log_reason="" if scale is None else scale.reason,
        )

    @property
    def target_scale(self) -> TargetScale | None:
        """How the targets of a regression are standardised; None for classes."""
        if self.scale is None:
            return None
        return TargetScale(*self.scale, is_log=self.is_log, reason=self.log_reason)

    @property
    def preparation(self) -> Preparation:
        """The same in the form that training and export use."""
        numeric = [column for column in self.columns if column.type == "numeric"]
        categorical = [column for column in self.columns if column.type == "categorical"]
        return Preparation(
            mean=np.array([column.mean for column in numeric], dtype=np.float64),
            std=np.array([column.std for column in numeric], dtype=np.float64),
            flagged=[place for place, column in enumerate(numeric) if column.is_flagged],
            num_categories=[len(column.categories) for column in categorical],
        )


def read_as(table: Table, reading: TableReading, *, whose: str) -> Table:
    """Return a table with the columns, scales and categories of another one, in their order.

    Categories that the other one lacks count as missing.

    Args:
        table: The validated table.
        reading: How the other job reads its table.
        whose: The other job, for messages.

    Raises:
        TrainingFailed: the two tables have different columns.
    """
    theirs = {column.name: column.type for column in reading.columns}
    mine: dict[str, str] = {column.name: column.type for column in table.index.columns}
    if message := find_other_column(theirs, mine, job_id=whose):
        raise refuse_start(message)
    own = {column.name: column for column in table.index.columns}
    columns = [_adopt(own[column.name], column) for column in reading.columns]
    if columns == table.index.columns:
        return table
    numeric, categorical = (_places(some) for some in (table.numeric, table.categorical))
    numbers = [numeric[column.name] for column in columns if column.type == "numeric"]
    codes = np.empty_like(table.codes)
    kept = [column for column in columns if column.type == "categorical"]
    for place, column in enumerate(kept):
        given = table.codes[:, categorical[column.name]]
        codes[:, place] = _translate(given, own[column.name].categories, column.categories)
    return Table(
        index=table.index.model_copy(update={"columns": columns}),
        numbers=table.numbers[:, numbers],
        codes=codes,
        targets=table.targets,
        ranks=table.ranks,
        labels=table.labels,
    )


def warn_of_unlike(table: Table, read: Table, event_log: EventLog) -> None:
    """Warn of columns whose values the other job did not have, or whose scale differs a lot.

    Args:
        table: The validated table.
        read: The same table with the other job's categories.
        event_log: Receives the warnings.
    """
    _warn_of_categories(table, read, event_log)
    _warn_of_numbers(read, event_log)


def _warn_of_categories(table: Table, read: Table, event_log: EventLog) -> None:
    lost = []
    places = _places(table.categorical)
    for place, column in enumerate(read.categorical):
        before = table.codes[:, places[column.name]] >= 0
        num = int((before & (read.codes[:, place] < 0)).sum())
        if num:
            lost.append(f"{column.name} ({num:,} of {int(before.sum()):,} values)")
    if lost:
        message = (
            "the job that this one starts from does not know all categories; the unknown ones "
            f"count as missing: {', '.join(lost[:5])}"
        )
        event_log.warning("unknown_categories", message)


def _warn_of_numbers(read: Table, event_log: EventLog) -> None:
    """Warn of columns with many clipped values, which all look the same to the network."""
    far = []
    for place, column in enumerate(read.numeric):
        numbers = read.numbers[: read.index.num_train, place].astype(np.float64)
        given = np.count_nonzero(~np.isnan(numbers))
        num = np.count_nonzero(np.abs(numbers - column.mean) > MAX_DEVIATIONS * column.std)
        if num > FAR_SHARE * given:
            share = f"{num / given:.0%} of its values"
            far.append(f"{column.name} ({share}; the other job's mean is {column.mean:g})")
    if far:
        message = (
            f"values far from the other job's mean (more than {MAX_DEVIATIONS:.0f} standard "
            f"deviations) are clipped: {', '.join(far[:5])}; check that these columns have the "
            "same unit in both tables"
        )
        event_log.warning("unlike_numbers", message)


def _adopt(own: Column, theirs: ColumnReading) -> Column:
    return own.model_copy(
        update={"categories": theirs.categories, "mean": theirs.mean, "std": theirs.std}
    )


def _places(columns: list[Column]) -> dict[str, int]:
    return {column.name: place for place, column in enumerate(columns)}


def _translate(codes: NDArray[np.int32], own: list[str], theirs: list[str]) -> NDArray[np.int32]:
    places = {category: place for place, category in enumerate(theirs)}
    # The last entry is found by -1, so missing values stay missing.
    lookup = np.array([*(places.get(category, -1) for category in own), -1], np.int32)
    translated: NDArray[np.int32] = lookup[codes]
    return translated
