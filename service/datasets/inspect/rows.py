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

from redkiln.tables import METADATA_KEY, TARGET, Column, TableIndex
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
    """Return the rows of a split in the order of the index, the target's text first."""
    with pq.ParquetFile(order.path) as file:
        index = TableIndex.model_validate_json(file.schema_arrow.metadata[METADATA_KEY.encode()])
        shown = index.columns[:MOST_COLUMNS]
        start = 0 if order.split == "train" else index.num_train
        num = index.num_train if order.split == "train" else index.num_test
        targets = file.read(columns=[TARGET]).column(0).to_numpy()[start : start + num]
        is_wanted = np.ones(num, bool) if order.label is None else targets == order.label
        positions = np.flatnonzero(is_wanted[order.after + 1 :]) + order.after + 1
        positions = positions[: order.limit]
        rows = [
            Row(
                position=int(position),
                target=_name(index, targets[position]),
                cells=[_text(column, row[column.name]) for column in shown],
            )
            for position, row in zip(
                positions, _take(file, [column.name for column in shown], positions + start),
                strict=True,
            )
        ]  # fmt: skip
    return Rows(
        columns=[column.name for column in shown], num_columns=len(index.columns), rows=rows
    )


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
