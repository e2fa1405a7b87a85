"""A table as arrays: read from its Parquet file and prepared as inputs of a network.

Shapes: N rows, F numeric columns, K categorical columns, M numeric columns with gaps in the
training split.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from redkiln.datasets import count_taken
from redkiln.failure import FailureCode
from redkiln.tables import LABELS, METADATA_KEY, PLACE, RANK, TARGET, Column, TableIndex
from worker.process.failed import TrainingFailed

if TYPE_CHECKING:
    from pyarrow import ChunkedArray
    from pyarrow.parquet import ParquetFile

Split = Literal["train", "validation", "test"]

MAX_DEVIATIONS = 30.0
"""Numbers further from their column's mean, in standard deviations, are clipped to this: otherwise
a single outlier could dominate a whole step."""


@dataclass(frozen=True)
class Table:
    """A validated table.

    Attributes:
        numbers: (N, F) float32, NaN if missing.
        codes: (N, K) int32, position in the column's categories, -1 if missing or unknown.
        targets: (N,) int64 labels, or float64 values.
        ranks: (N,) int32, position in the frozen order of the row's class and split.
        labels: (N, C) uint8, 1 for each label of a row, if a row can have several of the C classes;
            `targets` are then their rarest labels, which only decide about splits.
        places: (N,) places in the owner's file, such as `line 7`, null for training rows; None if
            the table is of an earlier version.
    """

    index: TableIndex
    numbers: NDArray[np.float32]
    codes: NDArray[np.int32]
    targets: NDArray[np.int64] | NDArray[np.float64]
    ranks: NDArray[np.int32]
    labels: NDArray[np.uint8] | None = None
    places: "ChunkedArray | None" = None

    @property
    def numeric(self) -> list[Column]:
        """The numeric columns in order."""
        return [column for column in self.index.columns if column.type == "numeric"]

    @property
    def categorical(self) -> list[Column]:
        """The categorical columns in order."""
        return [column for column in self.index.columns if column.type == "categorical"]

    def split(self, *, validation_fraction: float) -> dict[Split, NDArray[np.int64]]:
        """Return the rows of each split: the table's own, or as in `redkiln.tables.split_table`."""
        num = self.index.num_train
        is_regression = self.targets.dtype.kind == "f"
        labels = np.zeros(num, np.int64) if is_regression else self.targets[:num].astype(np.int64)
        held = _hold_out(labels, self.ranks[:num], fraction=validation_fraction)
        if self.index.num_validation:
            held = np.arange(num) >= num - self.index.num_validation
        return {
            "train": np.flatnonzero(~held),
            "validation": np.flatnonzero(held),
            "test": np.arange(num, len(self.targets)),
        }


@dataclass(frozen=True)
class Preparation:
    """How a row becomes inputs of the network, learnt from the training split.

    Attributes:
        mean: (F,) mean of each numeric column.
        std: (F,) standard deviation of each numeric column.
        flagged: Indices of numeric columns with gaps in the training split, which get a flag.
        num_categories: Number of categories of each categorical column.
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
        TrainingFailed: the file is missing or is not a validated table.
    """
    # Imported here because it takes a while and only tables need it.
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
    """Return the preparation that follows from the training split."""
    missing = np.isnan(table.numbers[: table.index.num_train])
    # A column without any value carries no information, and neither would its flag.
    some = missing.any(axis=0) & ~missing.all(axis=0)
    return Preparation(
        mean=np.array([column.mean for column in table.numeric], dtype=np.float64),
        std=np.array([column.std for column in table.numeric], dtype=np.float64),
        flagged=np.flatnonzero(some).tolist(),
        num_categories=[len(column.categories) for column in table.categorical],
    )


def prepare_numbers(numbers: NDArray[np.float32], by: Preparation) -> NDArray[np.float32]:
    """Turn raw numbers (N, F), NaN if missing, into standardised ones and flags (N, F + M)."""
    prepared = np.empty((len(numbers), by.num_numbers), np.float32)
    for place, (mean, std) in enumerate(zip(by.mean, by.std, strict=True)):
        # Column by column, because the whole table in float64 would take twice its size.
        standard = (numbers[:, place].astype(np.float64) - mean) / std
        np.clip(standard, -MAX_DEVIATIONS, MAX_DEVIATIONS, out=standard)
        prepared[:, place] = np.where(np.isnan(standard), 0.0, standard)
    prepared[:, len(by.mean) :] = np.isnan(numbers[:, by.flagged])
    return prepared


def prepare_codes(codes: NDArray[np.int32], *, unknown_places: list[int]) -> NDArray[np.int32]:
    """Turn codes (N, K), -1 if missing, into positions in the joint table of categories (N, K)."""
    return codes + np.array(unknown_places, np.int32) + np.int32(1)


def _read(file: "ParquetFile", index: TableIndex) -> Table:
    num = file.metadata.num_rows
    if num != index.num_train + index.num_test:
        raise ValueError(f"it has {num} rows but its index has {index.num_train + index.num_test}")
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
        labels=None if index.labels_separator is None else _read_labels(file, len(index.classes)),
        places=file.read(columns=[PLACE]).column(PLACE)
        if PLACE in file.schema_arrow.names
        else None,
    )


def _read_labels(file: "ParquetFile", num_classes: int) -> NDArray[np.uint8]:
    lists = file.read(columns=[LABELS]).column(LABELS).combine_chunks()
    labels = np.zeros((len(lists), num_classes), np.uint8)
    rows = np.repeat(np.arange(len(lists)), lists.value_lengths().to_numpy())
    labels[rows, lists.flatten().to_numpy()] = 1
    return labels


def _column(file: "ParquetFile", name: str, *, null: int | None = None) -> NDArray[Any]:
    # Select by name again, because reading `a` also reads a column called `a.b`.
    column = file.read(columns=[name]).column(name)
    filled = column if null is None else column.fill_null(null)
    values: NDArray[Any] = filled.to_numpy()
    return values


def _hold_out(
    labels: NDArray[np.int64], ranks: NDArray[np.int32], *, fraction: float
) -> NDArray[np.bool_]:
    """Do the same as `redkiln.datasets.take_fraction` for many rows at once."""
    sizes = np.bincount(labels, minlength=1).tolist()
    limits = np.array([count_taken(size, fraction=fraction) for size in sizes], np.int64)
    held: NDArray[np.bool_] = ranks < limits[labels]
    return held
