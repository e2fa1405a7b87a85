"""Reads rows by column name from CSV, TSV and JSON lines, with the standard library alone."""

import contextlib
import csv
import gzip
import io
import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from redkiln.errors import ModelError
from redkiln.predict.decoding import Decoder
from redkiln.predict.items import STDIN, InputError, NoInputError, expand

DELIMITERS = (",", "\t", ";", "|")
SAMPLED_LINES = 50
"""Lines that decide which delimiter a table has."""
JSON_ENDINGS = (".jsonl", ".ndjson", ".json")
PARQUET_ENDINGS = (".parquet", ".pq")


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        name: File and line, as in `rows.csv:3`.
        values: Values by column, or why the row cannot be used.
    """

    name: str
    values: dict[str, Any] | InputError


def read_tables(
    argument: str,
    *,
    stdin: BinaryIO,
    wanted: Collection[str],
    decoder: Decoder,
    has_header: bool = True,
) -> Iterator[Row]:
    """Return the rows of the tables that an argument names.

    Args:
        argument: A path, a pattern, or `-` for stdin.
        stdin: Standard input.
        wanted: Columns to look for; they decide which delimiter a file has.
        decoder: Decodes the files.
        has_header: Whether the first line names the columns; otherwise their names are 1, 2, ...

    Raises:
        ModelError: There is no such file, or it is not a table.
    """
    if argument == STDIN:
        text = decoder.decode("stdin", stdin.read())
        yield from _read_text("stdin", text, wanted, has_header)
        return
    paths = expand(argument)
    if not paths:
        raise NoInputError(argument, "matches no file")
    for path in paths:
        text = decoder.decode(str(path), _read(path))
        yield from _read_text(str(path), text, wanted, has_header)


def _read(path: Path) -> bytes:
    if path.suffix.lower() in PARQUET_ENDINGS:
        raise ModelError(f"{path} is a Parquet file. Convert it to CSV, for example with pandas.")
    if path.is_dir():
        raise ModelError(f"{path} is a folder. Name its tables, for example {path}/*.csv.")
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except FileNotFoundError:
        raise NoInputError(f"File {path}", "does not exist. Name a table of rows, or -") from None
    except (OSError, EOFError) as error:
        raise ModelError(f"{path} cannot be read: {error}.") from error


def _read_text(name: str, text: str, wanted: Collection[str], has_header: bool) -> Iterator[Row]:
    is_json = name.lower().removesuffix(".gz").endswith(JSON_ENDINGS) or text.lstrip()[:1] == "{"
    if is_json:
        return _read_json_lines(name, text)
    delimiter = _choose_delimiter(text, wanted)
    return _read_delimited(name, text, delimiter, has_header=has_header)


def _read_json_lines(name: str, text: str) -> Iterator[Row]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        values: dict[str, Any] | InputError
        try:
            values = json.loads(line)
            if not isinstance(values, dict):
                values = InputError("the line is not a JSON object with a value for each column")
        except ValueError as error:
            values = InputError(f"the line is not JSON: {error}")
        yield Row(f"{name}:{number}", values)


def _read_delimited(name: str, text: str, delimiter: str, *, has_header: bool) -> Iterator[Row]:
    header: list[str] | None = None
    for number, fields in _split_lines(name, text, delimiter):
        if not fields:
            continue
        if header is None and has_header:
            header = [field.strip() for field in fields]
            continue
        if header is None:
            header = [str(place) for place in range(1, len(fields) + 1)]
        place = f"{name}:{number}"
        if len(fields) == len(header):
            yield Row(place, dict(zip(header, fields, strict=True)))
        else:
            reason = f"the row has {len(fields)} fields instead of {len(header)}"
            yield Row(place, InputError(reason))
    if header is None:
        raise ModelError(f"{name} is empty. Its first line must name the columns.")


def _split_lines(name: str, text: str, delimiter: str) -> Iterable[tuple[int, list[str]]]:
    """Return the fields of each record and the number of its first line.

    Quotes are part of the values if the lines only then have equally many fields, as in a TSV of
    texts with single quotation marks.
    """
    if '"' in text:
        plain = [(n, line.split(delimiter)) for n, line in enumerate(text.splitlines(), 1) if line]
        quoted = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        num_records = sum(1 for fields in _without_errors(quoted) if fields)
        if len({len(fields) for _, fields in plain}) == 1 and num_records != len(plain):
            return plain
    return _read_quoted(name, text, delimiter)


def _read_quoted(name: str, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    first = 1
    try:
        for fields in reader:
            yield first, fields
            first = reader.line_num + 1
    except csv.Error as error:
        raise ModelError(f"{name}:{reader.line_num} cannot be read: {error}.") from error


def _without_errors(reader: Iterator[list[str]]) -> Iterator[list[str]]:
    with contextlib.suppress(csv.Error):
        yield from reader


def _choose_delimiter(text: str, wanted: Collection[str]) -> str:
    """Return the delimiter under which the header names most of the wanted columns.

    Among equal ones, it is the one that splits most lines into equally many fields.
    """
    lines = [line for line in islice(io.StringIO(text), SAMPLED_LINES) if line.strip()]

    def rate(delimiter: str) -> tuple[int, int, int]:
        names = {name.strip() for name in next(csv.reader(lines[:1], delimiter=delimiter), [])}
        counts = [line.count(delimiter) for line in lines]
        num_equal = sum(count == counts[0] for count in counts) if any(counts[:1]) else 0
        return len(names & set(wanted)), num_equal, max(counts[:1], default=0)

    return max(DELIMITERS, key=rate)
