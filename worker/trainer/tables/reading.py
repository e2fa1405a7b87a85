"""How a network reads a table's rows, apart from its weights; kept with them.

Its inputs mean what they mean by the means and deviations of the numeric columns, by the places of
categories, and by which columns it is told the gaps of; a regression's output does by the target's
scale. A job that goes on with a network's weights reads its own table in the same way.
"""

from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from redkiln.tables import Column, find_other_column
from worker.process.event_log import EventLog
from worker.trainer.models.from_job import refuse_start
from worker.trainer.tables.table import MAX_DEVIATIONS, Preparation, Table

FAR_SHARE = 0.01
"""Of a column's training values; a few odd ones are cut off in any table."""


class ColumnReading(BaseModel):
    """A feature column.

    Attributes:
        categories: of a categorical one, in the order of their places.
        mean: of a numeric one.
        std: of the same.
        is_flagged: the network is told where a number is missing.
    """

    name: str
    type: str
    categories: list[str] = []
    mean: float = 0.0
    std: float = 1.0
    is_flagged: bool = False


class TableReading(BaseModel):
    """How a network reads rows and, of a regression, what its output means.

    Attributes:
        columns: numeric and categorical ones in the order of the network's inputs.
        target: name of the target's column.
        scale: mean and deviation that a regression's targets are standardised by; None for classes.
    """

    columns: list[ColumnReading]
    target: str
    scale: tuple[float, float] | None

    @classmethod
    def of(
        cls, table: Table, preparation: Preparation, *, scale: tuple[float, float] | None
    ) -> Self:
        """What a job learns from its own table."""
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
        return cls(columns=columns, target=table.index.target, scale=scale)

    @property
    def preparation(self) -> Preparation:
        """The same as training and export use it."""
        numeric = [column for column in self.columns if column.type == "numeric"]
        categorical = [column for column in self.columns if column.type == "categorical"]
        return Preparation(
            mean=np.array([column.mean for column in numeric], dtype=np.float64),
            std=np.array([column.std for column in numeric], dtype=np.float64),
            flagged=[place for place, column in enumerate(numeric) if column.is_flagged],
            num_categories=[len(column.categories) for column in categorical],
        )


def read_as(table: Table, reading: TableReading, *, whose: str) -> Table:
    """A table with the columns, scales and categories of another one, in their order.

    A category that the other one has not is unknown.

    Args:
        table: as it was validated.
        reading: of the other.
        whose: the job that it is of.

    Raises:
        TrainingFailed: its columns are not the same.
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
    )


def warn_of_unlike(table: Table, read: Table, event_log: EventLog) -> None:
    """Name the columns whose values the other job did not know, or knew quite other ones of.

    Args:
        table: as it was validated.
        read: the same by the other job's categories.
        event_log: told of them.
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
            "the job that this one starts from did not know all categories; those count as "
            f"missing: {', '.join(lost[:5])}"
        )
        event_log.warning("unknown_categories", message)


def _warn_of_numbers(read: Table, event_log: EventLog) -> None:
    """Those that are cut off make a column say the same of all its rows."""
    far = []
    for place, column in enumerate(read.numeric):
        numbers = read.numbers[: read.index.num_train, place].astype(np.float64)
        given = np.count_nonzero(~np.isnan(numbers))
        num = np.count_nonzero(np.abs(numbers - column.mean) > MAX_DEVIATIONS * column.std)
        if num > FAR_SHARE * given:
            far.append(f"{column.name} ({num / given:.0%} of its values; there {column.mean:g})")
    if far:
        message = (
            "numbers are so far from the mean that they had for the job that this one starts from "
            f"that they are cut off, at {MAX_DEVIATIONS:.0f} deviations: {', '.join(far[:5])}; see "
            "whether they are in the same unit"
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
    # The last one is found by -1: what is missing stays so.
    lookup = np.array([*(places.get(category, -1) for category in own), -1], np.int32)
    translated: NDArray[np.int32] = lookup[codes]
    return translated
