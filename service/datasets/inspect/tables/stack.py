"""Concatenates the rows of several files."""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from redkiln.tables import LABELS, PLACE, RANK, TARGET
from service.datasets.inspect.report import Refused, problem, quote, refuse
from service.datasets.inspect.tables.raw import RawTable


def stack(tables: list[RawTable]) -> tuple[list[str], list[pa.ChunkedArray]]:
    """Concatenate tables; return the names of the columns and all their values.

    Raises:
        Refused: A column name is duplicate or reserved, or the files have different columns.
    """
    for table in tables:
        _check_names(table)
    first = tables[0]
    for table in tables[1:]:
        missing = [name for name in first.names if name not in table.names]
        further = [name for name in table.names if name not in first.names]
        if missing or further:
            name = (missing or further)[0]
            lacks, has = (table, first) if missing else (first, table)
            message = f"has no column {quote(name)}, but {has.path} has; give both the same columns"
            raise refuse("other_columns", message, lacks.path)
    columns = []
    for position, name in enumerate(first.names):
        parts = [first.columns[position]]
        parts += [table.columns[table.names.index(name)] for table in tables[1:]]
        columns.append(_join(parts))
    return first.names, columns


def _check_names(table: RawTable) -> None:
    if not table.names:
        raise refuse("no_rows", "has no rows of data", table.path)
    problems = []
    for name, count in Counter(table.names).items():
        if count > 1:
            places = [str(at) for at, other in enumerate(table.names, 1) if other == name]
            message = f"{count} columns are named {quote(name)} ({', '.join(places)}); rename them"
            problems.append(problem("duplicate_column", message, table.path))
        if name in (TARGET, RANK, LABELS, PLACE):
            message = f"the column name {name!r} is reserved; rename the column"
            problems.append(problem("reserved_name", message, table.path))
    if problems:
        raise Refused(problems)


def _join(parts: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    types = {part.type for part in parts}
    to = parts[0].type if len(types) == 1 else pa.string()
    chunks = [chunk for part in parts for chunk in pc.cast(part, to).chunks]
    return pa.chunked_array(chunks, type=to)
