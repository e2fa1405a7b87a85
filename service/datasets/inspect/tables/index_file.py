"""Writes a validated table as the one Parquet file that workers read (`redkiln.tables`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from redkiln.datasets import rank_within_classes
from redkiln.tables import LABELS, METADATA_KEY, PLACE, RANK, TARGET, Column, TableIndex
from service.datasets.inspect.layout import Split as Part
from service.datasets.inspect.quality.draw import draw_test, rank_together
from service.datasets.inspect.tables.profile import Profile

_ROWS_A_GROUP = 1 << 20


@dataclass(frozen=True)
class Split:
    """The rows that are used, and their order.

    Attributes:
        order: (N,) int64 source rows: first the training rows, then the test rows.
        ranks: (N,) int32 position of each row in its class and split.
        num_train: Number of training rows, those of an own validation split included.
        is_held_out: Whether the test split was taken from the training rows.
        num_validation: The last of the training rows that are an own validation split.
    """

    order: np.ndarray
    ranks: np.ndarray
    num_train: int
    is_held_out: bool
    num_validation: int = 0

    @property
    def train(self) -> np.ndarray:
        """The source rows for training."""
        return self.order[: self.num_train]


def split_rows(
    labels: np.ndarray,
    *,
    is_used: np.ndarray,
    held: Mapping[Part, np.ndarray],
    copies: np.ndarray,
    seed: int,
) -> Split:
    """Split the rows of a table.

    Args:
        labels: (N,) class of each row; all 0 for regression.
        is_used: (N,) bool; False for skipped rows.
        held: (N,) bool for the rows of `validation` and `test`, if they are given; otherwise the
            test split is taken from the other rows.
        copies: (N,) number that rows share which are copies of each other.
        seed: The data set's random seed.
    """
    is_validation = held.get("validation", np.zeros(len(labels), bool))
    validation = np.flatnonzero(is_used & is_validation)
    split = _split_rest(
        labels,
        is_used=is_used & ~is_validation,
        is_test=held.get("test"),
        copies=copies,
        seed=seed,
    )
    ranks = np.array(rank_within_classes(labels[validation].tolist(), seed=seed), np.int32)
    place = split.num_train
    return Split(
        np.insert(split.order, place, validation),
        np.insert(split.ranks, place, ranks),
        place + len(validation),
        is_held_out=split.is_held_out,
        num_validation=len(validation),
    )


def _split_rest(
    labels: np.ndarray,
    *,
    is_used: np.ndarray,
    is_test: np.ndarray | None,
    copies: np.ndarray,
    seed: int,
) -> Split:
    used = np.flatnonzero(is_used)
    if is_test is None:
        ranks = np.array(rank_within_classes(labels[used].tolist(), seed=seed), np.int32)
        taken = draw_test(labels[used], ranks, copies[used])
        parts = [used[~taken], used[taken]]
        orders = [ranks[~taken], ranks[taken]]
    else:
        parts = [used[~is_test[used]], used[is_test[used]]]
        orders = [
            np.array(rank_within_classes(labels[part].tolist(), seed=seed), np.int32)
            for part in parts
        ]
    found = [
        rank_together(labels[part], order, copies[part])
        for part, order in zip(parts, orders, strict=True)
    ]
    return Split(
        np.concatenate(parts),
        np.concatenate(found).astype(np.int32),
        len(parts[0]),
        is_held_out=is_test is None,
    )


def measure(values: np.ndarray) -> tuple[float, float]:
    """Return the mean, and the standard deviation (1 instead of 0), without overflow."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0:
        return 0.0, 1.0
    scaled = values / largest
    std = float(scaled.std()) * largest
    return float(scaled.mean()) * largest, std if std > 0 else 1.0


def build_numeric(found: Profile, split: Split) -> tuple[Column, pa.Array]:
    """Build a numeric column with the statistics of the rows that jobs train on."""
    assert found.numbers is not None
    values = found.numbers[split.order]
    train = values[: split.num_train - split.num_validation]
    train = train[~np.isnan(train)]
    mean, std = measure(train)
    column = Column(
        name=found.name,
        type="numeric",
        num_missing=int(np.isnan(values).sum()),
        mean=mean,
        std=std,
        minimum=float(train.min()) if len(train) else None,
        maximum=float(train.max()) if len(train) else None,
        written=found.written,
        derived=found.derived,
    )
    return column, pa.array(values, pa.float64(), mask=np.isnan(values))


def build_categorical(found: Profile, split: Split) -> tuple[Column, pa.Array]:
    """Build a categorical column with the categories of the rows that jobs train on."""
    texts = pc.take(found.texts, pa.array(split.order)).combine_chunks()
    counts = pc.value_counts(texts.slice(0, split.num_train - split.num_validation).drop_null())
    pairs = zip(counts.field(0).to_pylist(), counts.field(1).to_pylist(), strict=True)
    categories = [value for value, _ in sorted(pairs, key=lambda pair: (-pair[1], pair[0]))]
    codes = pc.index_in(texts, value_set=pa.array(categories, pa.string()), skip_nulls=True)
    column = Column(
        name=found.name,
        type="categorical",
        categories=categories,
        num_missing=texts.null_count,
    )
    return column, codes


def build_text(found: Profile, split: Split) -> tuple[Column, pa.Array]:
    """Build the text column with its texts unchanged."""
    texts = pc.take(pc.fill_null(pc.cast(found.raw, pa.string()), ""), pa.array(split.order))
    return Column(name=found.name, type="text"), texts.combine_chunks()


def write_index(
    path: Path,
    index: TableIndex,
    features: list[pa.Array],
    targets: pa.Array,
    ranks: np.ndarray,
    *,
    labels: pa.ListArray | None = None,
    places: pa.Array | None = None,
) -> None:
    """Write the file.

    Args:
        path: Path of the file.
        index: Index to store in the schema's metadata.
        features: (N,) values of each column, in the order of `index.columns`.
        targets: (N,) int32 classes or float64 numbers.
        ranks: (N,) int32 position of each row in its class and split.
        labels: (N,) lists of int32 labels, if a row can have several.
        places: Places of the test rows in the owner's file; None leaves them out.
    """
    further: dict[str, pa.Array] = {} if labels is None else {LABELS: labels}
    if places is not None:
        further[PLACE] = pa.concat_arrays([pa.nulls(index.num_train, pa.string()), places])
    names = [*(column.name for column in index.columns), TARGET, RANK, *further]
    metadata = {METADATA_KEY: index.model_dump_json()}
    table = pa.table(
        [*features, targets, pa.array(ranks, pa.int32()), *further.values()], names=names
    )
    pq.write_table(
        table.replace_schema_metadata(metadata),
        path,
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        row_group_size=_ROWS_A_GROUP,
        write_statistics=False,
        store_schema=True,
    )
