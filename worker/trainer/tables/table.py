"""A table as tensors: read once from its Parquet file, made ready, and resident on the device.

Legend of shapes: N rows, B batch, F numeric columns, K categorical columns, M numeric columns with
gaps in the training split.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from redkiln.datasets import count_taken
from redkiln.failure import FailureCode
from redkiln.tables import METADATA_KEY, RANK, TARGET, Column, TableIndex
from worker.process.failed import TrainingFailed

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

Split = Literal["train", "validation", "test"]

MAX_DEVIATIONS = 30.0
"""A number further from its column's mean, in standard deviations, counts as this far: one odd row
would otherwise decide a whole step."""


@dataclass(frozen=True)
class Table:
    """A table as it was validated.

    Attributes:
        numbers: (N, F) float32, NaN where missing.
        codes: (N, K) int32, place in the column's categories, -1 where missing or unknown.
        targets: (N,) int64 labels, or float64 values.
        ranks: (N,) int32, place in the frozen order of the row's class and split.
    """

    index: TableIndex
    numbers: NDArray[np.float32]
    codes: NDArray[np.int32]
    targets: NDArray[np.int64] | NDArray[np.float64]
    ranks: NDArray[np.int32]

    @property
    def numeric(self) -> list[Column]:
        """The numeric columns, in their order."""
        return [column for column in self.index.columns if column.type == "numeric"]

    @property
    def categorical(self) -> list[Column]:
        """The categorical columns, in their order."""
        return [column for column in self.index.columns if column.type == "categorical"]

    def split(self, *, validation_fraction: float) -> dict[Split, NDArray[np.int64]]:
        """The rows of each split, as `redkiln.tables.split_table` has them."""
        num = self.index.num_train
        is_regression = self.targets.dtype.kind == "f"
        labels = np.zeros(num, np.int64) if is_regression else self.targets[:num].astype(np.int64)
        held = _hold_out(labels, self.ranks[:num], fraction=validation_fraction)
        return {
            "train": np.flatnonzero(~held),
            "validation": np.flatnonzero(held),
            "test": np.arange(num, len(self.targets)),
        }


@dataclass(frozen=True)
class Preparation:
    """How a row becomes what the network takes, learnt from the training split.

    Attributes:
        mean: (F,) of each numeric column.
        std: (F,) of the same.
        flagged: numeric columns with gaps in the training split: the network is told where.
        num_categories: of each categorical column.
    """

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    flagged: list[int]
    num_categories: list[int]

    @property
    def num_numbers(self) -> int:
        """Width of the prepared numbers: F + M."""
        return len(self.mean) + len(self.flagged)


def load_table(path: Path) -> Table:
    """Read a table's Parquet file.

    Raises:
        TrainingFailed: it is not there, or not what a validated table is.
    """
    # Importing takes a while, and only tables pay for it.
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            content = file.schema_arrow.metadata[METADATA_KEY.encode()]
            index = TableIndex.model_validate_json(content)
            return _read(file, index)
    except (OSError, KeyError, TypeError, ValueError, pa.ArrowException) as error:
        message = f"the table {path.name} cannot be read: {error}"
        raise TrainingFailed(FailureCode.DATASET_UNAVAILABLE, message) from error


def learn_preparation(table: Table) -> Preparation:
    """What the training split says of the columns."""
    missing = np.isnan(table.numbers[: table.index.num_train])
    # A column without a single value says nothing, and neither would its flag.
    some = missing.any(axis=0) & ~missing.all(axis=0)
    return Preparation(
        mean=np.array([column.mean for column in table.numeric], dtype=np.float64),
        std=np.array([column.std for column in table.numeric], dtype=np.float64),
        flagged=np.flatnonzero(some).tolist(),
        num_categories=[len(column.categories) for column in table.categorical],
    )


def prepare_numbers(numbers: NDArray[np.float32], by: Preparation) -> NDArray[np.float32]:
    """Raw numbers (N, F), NaN where missing -> standardised ones and flags (N, F + M)."""
    prepared = np.empty((len(numbers), by.num_numbers), np.float32)
    for place, (mean, std) in enumerate(zip(by.mean, by.std, strict=True)):
        # Column by column: the whole table in float64 would be twice its size.
        standard = (numbers[:, place].astype(np.float64) - mean) / std
        np.clip(standard, -MAX_DEVIATIONS, MAX_DEVIATIONS, out=standard)
        prepared[:, place] = np.where(np.isnan(standard), 0.0, standard)
    prepared[:, len(by.mean) :] = np.isnan(numbers[:, by.flagged])
    return prepared


def prepare_codes(codes: NDArray[np.int32], *, unknown_places: list[int]) -> NDArray[np.int32]:
    """Codes (N, K), -1 where missing -> places in the one table of all categories (N, K)."""
    return codes + np.array(unknown_places, np.int32) + np.int32(1)


def _read(file: "ParquetFile", index: TableIndex) -> Table:
    num = file.metadata.num_rows
    if num != index.num_train + index.num_test:
        raise ValueError(f"it has {num} rows, and its index tells of others")
    numeric = [column for column in index.columns if column.type == "numeric"]
    categorical = [column for column in index.columns if column.type == "categorical"]
    numbers = np.empty((num, len(numeric)), np.float32)
    codes = np.empty((num, len(categorical)), np.int32)
    with np.errstate(over="ignore"):
        for place, column in enumerate(numeric):
            numbers[:, place] = _column(file, column.name)
    for place, column in enumerate(categorical):
        codes[:, place] = _column(file, column.name, null=-1)
    targets = _column(file, TARGET)
    is_regression = index.task == "tabular-regression"
    return Table(
        index=index,
        numbers=numbers,
        codes=codes,
        targets=targets.astype(np.float64) if is_regression else targets.astype(np.int64),
        ranks=_column(file, RANK).astype(np.int32),
    )


def _column(file: "ParquetFile", name: str, *, null: int | None = None) -> NDArray[Any]:
    # By its name again: `a` also reads what is called `a.b`.
    column = file.read(columns=[name]).column(name)
    filled = column if null is None else column.fill_null(null)
    values: NDArray[Any] = filled.to_numpy()
    return values


def _hold_out(
    labels: NDArray[np.int64], ranks: NDArray[np.int32], *, fraction: float
) -> NDArray[np.bool_]:
    """`redkiln.datasets.take_fraction` for many rows at once."""
    sizes = np.bincount(labels, minlength=1).tolist()
    limits = np.array([count_taken(size, fraction=fraction) for size in sizes], np.int64)
    held: NDArray[np.bool_] = ranks < limits[labels]
    return held
