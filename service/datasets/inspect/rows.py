"""The process that reads rows of a table: one argument, the path of a `RowsOrder` as JSON.

It writes `rows.json`, a `Rows`, next to the order.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from redkiln.tables import METADATA_KEY, TARGET, Column, TableIndex, put_own_first
from service.datasets.inspect.limits import GIB, Limits, confine
from service.datasets.inspect.rows_order import RESULT, Row, Rows, RowsOrder

MOST_COLUMNS = 40
MOST_CHARACTERS = 600
_BATCH_ROWS = 8192
_CPU_SECONDS = 60


def main(order_path: Path) -> None:
    """Read the order's rows."""
    order = RowsOrder.model_validate_json(order_path.read_bytes())
    limits = replace(Limits(), memory_bytes=3 * GIB, cpu_seconds=_CPU_SECONDS)
    confine(limits, parent_pid=order.parent_pid)
    (order_path.parent / RESULT).write_text(read_rows(order).model_dump_json())


def read_rows(order: RowsOrder) -> Rows:
    """Return rows of a split in the order of the index, or mixed, with the text of the target."""
    with pq.ParquetFile(order.path) as file:
        index = TableIndex.model_validate_json(file.schema_arrow.metadata[METADATA_KEY.encode()])
        shown = put_own_first(index.columns)[:MOST_COLUMNS]
        start = 0 if order.split == "train" else index.num_train
        num = index.num_train if order.split == "train" else index.num_test
        targets = file.read(columns=[TARGET]).column(0).to_numpy()[start : start + num]
        positions = _choose(order, targets if index.classes else np.zeros(num, np.int64))
        rising = np.sort(positions)
        cells = _take(file, [column.name for column in shown], rising + start)
        read = {
            int(position): Row(
                position=int(position),
                target=_name(index, targets[position]),
                cells=[_text(column, row[column.name]) for column in shown],
            )
            for position, row in zip(rising, cells, strict=True)
        }
        rows = [read[position] for position in positions.tolist()]
    return Rows(
        columns=[column.name for column in shown], num_columns=len(index.columns), rows=rows
    )


def _choose(order: RowsOrder, labels: np.ndarray) -> np.ndarray:
    """Return the positions of the rows to list.

    Args:
        order: The order.
        labels: (N,) class of each row of the split; all equal for a regression.
    """
    listed = np.arange(len(labels))
    if order.is_mixed:
        by_class = np.argsort(labels, kind="stable")
        _, first, label = np.unique(labels[by_class], return_index=True, return_inverse=True)
        in_class = np.empty(len(labels), np.int64)
        in_class[by_class] = listed - first[label]
        listed = np.lexsort((labels, in_class))
    elif order.label is not None:
        listed = np.flatnonzero(labels == order.label)
    if order.after >= 0:
        is_last = listed == order.after
        # Without mixing, the row to continue after may be of another class.
        listed = listed[is_last.argmax() + 1 :] if is_last.any() else listed[listed > order.after]
    return listed[: order.limit]


def _take(
    file: pq.ParquetFile, columns: Sequence[str], rows: np.ndarray
) -> Iterator[dict[str, Any]]:
    """Read rows by their rising numbers, a batch of the file at a time."""
    first = 0
    rest = rows.tolist()
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns)):
        while rest and rest[0] < first + batch.num_rows:
            (row,) = batch.slice(rest.pop(0) - first, 1).to_pylist()
            yield row
        if not rest:
            return
        first += batch.num_rows


def _name(index: TableIndex, target: Any) -> str:
    return index.classes[int(target)] if index.classes else f"{float(target):.6g}"


def _text(column: Column, value: Any) -> str | None:
    if value is None:
        return None
    if column.type == "categorical":
        return column.categories[int(value)]
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
