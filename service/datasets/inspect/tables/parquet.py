"""Reads Parquet: numbers as numbers, all other single values as text.

A list of texts is read as `css;java`, as a cell of a CSV would be. Other lists, and records, can
only be ignored.
Integers too long for float64 are read as text as well: they are names rather than amounts.
"""

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from service.datasets.inspect.limits import Limits, say_too_large
from service.datasets.inspect.report import problem, quote_use, refuse
from service.datasets.inspect.tables.raw import BadRows, RawTable
from service.datasets.inspect.tables.values import as_column

LIST_SEPARATOR = ";"
_PANDAS_INDEX = "__index_level_"


def read_parquet(
    path: Path, *, place: str | None, limits: Limits, ignored: Collection[str] = ()
) -> RawTable:
    """Read a Parquet file.

    Args:
        path: The file.
        place: Its name in its archive, for messages.
        limits: Limits of the inspection.
        ignored: Names of columns that the user ignores.

    Raises:
        Refused: The file is damaged, too large, or has lists or records that are not ignored.
    """
    try:
        with pq.ParquetFile(path) as file:
            _check_size(file, place=place, limits=limits)
            _check_types(file.schema_arrow, place=place, ignored=ignored)
            table = file.read(use_threads=False)
            columns = [_as_column(column) for column in table.columns]
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        if isinstance(error, MemoryError):
            raise
        message = f"cannot be read as Parquet ({_first_line(error)}); write the file again"
        raise refuse("bad_parquet", message, place) from None
    names = list(table.column_names)
    return RawTable(place, names, columns, BadRows(), unit="row")


def _check_size(file: pq.ParquetFile, *, place: str | None, limits: Limits) -> None:
    metadata = file.metadata
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    unpacked = sum(group.total_byte_size for group in groups)
    if unpacked > limits.max_table_bytes:
        raise refuse("too_large", f"unpacked, it {say_too_large(limits.max_table_bytes)}", place)


def _check_types(schema: pa.Schema, *, place: str | None, ignored: Collection[str]) -> None:
    nested = [
        field
        for field in schema
        if pa.types.is_nested(_plain(field.type))
        and not _is_list_of_texts(field.type)
        and field.name not in ignored
    ]
    if nested:
        problems = [
            problem(
                "nested_value",
                f"column {field.name!r} has type {field.type} instead of one value per row; split "
                f"it into columns, or leave it out: column={quote_use(field.name, 'ignored')}",
                place,
            )
            for field in nested[:20]
        ]
        refused = refuse("nested_value", "", place)
        refused.problems = problems
        raise refused


def _is_list_of_texts(kind: pa.DataType) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    return bool(pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type))


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _as_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = _plain(column.type)
    if _is_list_of_texts(kind):
        return pc.binary_join(pc.cast(column, pa.list_(pa.string())), LIST_SEPARATOR)
    if pa.types.is_nested(kind):
        return pa.chunked_array([pa.nulls(len(column), pa.string())])
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if is_number or pa.types.is_decimal(kind):
        return as_column(pc.cast(column, kind))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pc.cast(pc.cast(column, pa.binary()), pa.string())
    return pc.cast(column, pa.string())


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
