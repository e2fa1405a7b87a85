"""Inspects the files of a table: reads them, judges them, writes the index."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pyarrow as pa

from redkiln.tables import TableOptions
from service.datasets.inspect.images import BadImage
from service.datasets.inspect.layout import Split
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.report import INDEX, InspectionReport, refuse
from service.datasets.inspect.source import Source
from service.datasets.inspect.tables.delimited import drop_empty_rows, read_delimited
from service.datasets.inspect.tables.find import TableFile
from service.datasets.inspect.tables.json_lines import read_json_lines
from service.datasets.inspect.tables.judge import judge_tables
from service.datasets.inspect.tables.parquet import read_parquet
from service.datasets.inspect.tables.plain import make_plain
from service.datasets.inspect.tables.raw import RawTable

_BEGINS_JSON = re.compile(rb"\{|\[\s*\{")


def inspect_lone_table(
    path: Path,
    options: TableOptions,
    *,
    work_dir: Path,
    seed: int,
    num_threads: int,
    limits: Limits,
) -> InspectionReport:
    """Inspect one uploaded table; write its index to the work folder if it is valid.

    Raises:
        Refused: The table cannot be used, nor inspected completely.
    """
    _prepare(num_threads)
    table = _read(path, options, place=None, work_dir=work_dir, limits=limits)
    return judge_tables(
        {"train": [table]},
        options,
        index_path=work_dir / INDEX,
        seed=seed,
        num_threads=num_threads,
        limits=limits,
    )


def inspect_tables(
    source: Source,
    files: Sequence[TableFile],
    options: TableOptions,
    *,
    work_dir: Path,
    seed: int,
    num_threads: int,
    limits: Limits,
) -> InspectionReport:
    """Inspect the tables of an archive or folder; see `inspect_lone_table`."""
    _prepare(num_threads)
    first: RawTable | None = None
    tables: dict[Split, list[RawTable]] = {split: [] for split in get_args(Split)}
    # Training files first, because the others are read with the same header setting.
    for file in sorted(files, key=lambda file: file.split in ("validation", "test")):
        path = _copy(source, file, work_dir=work_dir, limits=limits)
        place = file.entry.path
        known = options if first is None else _like(first, options)
        table = _read(path, known, place=place, work_dir=work_dir, limits=limits)
        first = first or table
        tables[file.split or "train"].append(table)
    report = judge_tables(
        tables,
        options,
        index_path=work_dir / INDEX,
        seed=seed,
        num_threads=num_threads,
        limits=limits,
    )
    report.size_bytes = sum(file.entry.size_bytes for file in files)
    return report


def _prepare(num_threads: int) -> None:
    # Other pools reserve gigabytes of address space, which is limited in this process.
    pa.set_memory_pool(pa.system_memory_pool())
    pa.set_cpu_count(num_threads)
    pa.set_io_thread_count(1)


def _copy(source: Source, file: TableFile, *, work_dir: Path, limits: Limits) -> Path:
    """Copy a file of an archive or folder to the work folder."""
    wide = replace(limits, max_file_bytes=limits.max_table_bytes)
    try:
        content = source.read(file.entry, limits=wide)
    except BadImage as bad:
        raise refuse(bad.code, bad.message, file.entry.path) from None
    path = work_dir / f"table-{sum(1 for _ in work_dir.glob('table-*'))}"
    path.write_bytes(content)
    return path


def _read(
    path: Path, options: TableOptions, *, place: str | None, work_dir: Path, limits: Limits
) -> RawTable:
    plain = make_plain(
        path, work_dir=work_dir, place=place, limits=limits, encoding=options.encoding
    )
    if plain.is_parquet:
        ignored = {name for name, use in options.columns.items() if use == "ignored"}
        table = read_parquet(plain.path, place=place, limits=limits, ignored=ignored)
    elif _is_json(plain.path, place):
        table = read_json_lines(plain.path, place=place)
    else:
        table = read_delimited(
            plain.path,
            place=place,
            delimiter=options.delimiter,
            header=options.header,
            missing=options.missing_words,
        )
        drop_empty_rows(table)
    table.notes[:0] = plain.notes
    return table


def _is_json(path: Path, place: str | None) -> bool:
    name = (place or "").casefold().removesuffix(".gz")
    if name.endswith((".jsonl", ".ndjson", ".json")):
        return True
    with path.open("rb") as file:
        start = file.read(4096).lstrip()
    return _BEGINS_JSON.match(start) is not None


def _like(first: RawTable, options: TableOptions) -> TableOptions:
    """Return the options for a further file: it has a header if the first file has one."""
    if options.header is not None or first.unit != "line":
        return options
    return options.model_copy(update={"header": first.first_row == 2})
