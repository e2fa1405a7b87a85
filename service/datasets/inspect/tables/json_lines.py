"""Reads JSON lines: one object per line, whose members are the columns."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from service.datasets.inspect.limits import MIB
from service.datasets.inspect.report import refuse
from service.datasets.inspect.tables.raw import BadRows, RawTable
from service.datasets.inspect.tables.values import MAX_EXACT, as_column

MAX_LINE_BYTES = 8 * MIB
_BATCH = 20_000
_MAX_COLUMNS = 10_000


def read_json_lines(path: Path, *, place: str | None) -> RawTable:
    """Read a file of JSON lines in UTF-8; a member that a line lacks is a missing value.

    Args:
        path: The file.
        place: Its name in its archive, for messages.

    Raises:
        Refused: The file is one JSON document, has no objects, or too many columns.
    """
    bad = BadRows()
    blank: list[int] = []
    batches: list[dict[str, pa.Array]] = []
    sizes: list[int] = []
    names: dict[str, None] = {}
    rows = _rows(path, bad, blank, place=place)
    while batch := list(islice(rows, _BATCH)):
        for row in batch:
            names.update(dict.fromkeys(row))
        if len(names) > _MAX_COLUMNS:
            message = f"has more than {_MAX_COLUMNS} different member names, too many for columns"
            raise refuse("too_many_columns", message, place)
        batches.append({name: _column([row.get(name) for row in batch]) for name in names})
        sizes.append(len(batch))
    if not batches and bad.reasons:
        message = f"line {bad.numbers[0]} {bad.reasons[0][1]}"
        raise refuse("not_json_lines", message, place)
    columns = [_join(name, batches, sizes) for name in names]
    table = RawTable(place, list(names), columns, bad)
    table.note_left_out(blank)
    return table


def _rows(
    path: Path, bad: BadRows, blank: list[int], *, place: str | None
) -> Iterator[dict[str, Any]]:
    number = 0
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                here = f"line {number}" if place is None else f"{place}, line {number}"
                message = f"is longer than {MAX_LINE_BYTES} bytes; shorten or remove it"
                raise refuse("row_too_long", message, here)
            if not line.strip():
                blank.append(number)
                continue
            fault, row = _read_line(line)
            if fault is None:
                yield row
                continue
            if number == len(blank) + 1 and line.lstrip().startswith(b"["):
                message = (
                    "is a JSON array; write one object per line (jq -c '.[]' FILE > FILE.jsonl)"
                )
                raise refuse("not_json_lines", message, place)
            bad.add(number, *fault)


def _read_line(line: bytes) -> tuple[tuple[str, str] | None, dict[str, Any]]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return ("bad_json", f"is not JSON ({error})"), {}
    if not isinstance(row, dict):
        kind = {list: "an array", str: "a text", type(None): "null", bool: "true or false"}
        name = kind.get(type(row), "a number")
        return ("not_an_object", f"is {name}, not an object; write {{...}} on each line"), {}
    for name, value in row.items():
        if isinstance(value, dict | list):
            kind_name = "an object" if isinstance(value, dict) else "an array"
            message = f"column {name!r} contains {kind_name}; put each value into its own column"
            return ("nested_value", message), {}
    return None, row


def _column(values: list[Any]) -> pa.Array:
    """Build a batch of one column: numbers, texts or only nulls."""
    kinds = {type(value) for value in values} - {type(None)}
    if not kinds:
        return pa.nulls(len(values))
    if kinds == {int} and all(v is None or abs(v) < 2**63 for v in values):
        return pa.array(values, pa.int64())
    is_exact = all(abs(v) < MAX_EXACT for v in values if isinstance(v, int))
    if kinds <= {int, float} and is_exact:
        return pa.array(values, pa.float64())
    return pa.array([None if value is None else _as_text(value) for value in values], pa.string())


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        # Replace lone surrogates, which JSON can express but UTF-8 cannot.
        return value.encode(errors="replace").decode()
    return json.dumps(value)


def _join(name: str, batches: list[dict[str, pa.Array]], sizes: list[int]) -> pa.ChunkedArray:
    parts = [batch.get(name, pa.nulls(size)) for batch, size in zip(batches, sizes, strict=True)]
    types = {part.type for part in parts} - {pa.null()}
    integers = [part for part in parts if part.type == pa.int64()]
    is_exact = all(as_column(part).type == pa.float64() for part in integers)
    are_numbers = bool(types) and types <= {pa.int64(), pa.float64()}
    to = pa.float64() if are_numbers and is_exact else pa.string()
    return pa.chunked_array([pc.cast(part, to) for part in parts], type=to)
