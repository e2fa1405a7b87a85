"""Reads `labels.csv`: a file and its labels in each row, and optionally the split."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from redkiln.cells.encoding import ONE_BYTE, OtherScriptError, find_encoding_of_names
from redkiln.cells.file_names import FileNames
from redkiln.cells.label_file import (
    NAME,
    ONE_CLASS,
    SEPARATOR,
    LabelColumns,
    explain_columns,
    explain_extra,
    find_columns,
    find_delimiter,
    find_extra,
    split_cell,
)
from service.datasets.inspect.images import BadImage
from service.datasets.inspect.layout import SPLITS, Split
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.report import (
    Refused,
    explain_script,
    problem,
    quote,
    refuse,
    refuse_encoding,
    say_guessed,
    show,
)
from service.datasets.inspect.source import Source

MAX_NAMED = 10
"""Columns that a note names."""


@dataclass(frozen=True)
class LabelRow:
    """A row: the file as it is written there, its labels, and its place in `labels.csv`.

    A row may have no label.
    """

    file: str
    labels: list[str]
    split: Split | None
    place: str


def find_labels_file(files: Sequence[Entry]) -> Entry | None:
    """Return the `labels.csv` of a set of images; None without one.

    Raises:
        Refused: There are several.
    """
    found = [entry for entry in files if entry.parts[-1].casefold() == NAME]
    if len(found) > 1:
        names = ", ".join(entry.path for entry in found[:3])
        message = f"there are {len(found)} files of labels ({names}); put all rows into one"
        raise refuse("several_tables", message)
    return found[0] if found else None


def read_rows(
    source: Source,
    entry: Entry,
    *,
    names: FileNames,
    target: str | None = None,
    separator: str | None,
    limits: Limits,
    encoding: str | None = None,
) -> tuple[list[LabelRow], list[str]]:
    """Return the rows of `labels.csv`, and notes if its encoding or its columns were guessed.

    Args:
        source: The data set.
        entry: The file.
        names: The files of the data set.
        target: Name of the column with the labels, if the user gave it.
        separator: Separator of the labels in a cell; None for `;`, `none` if each is one class.
        limits: Limits of the inspection.
        encoding: Encoding of the file, if the user gave one.

    Raises:
        Refused: The file cannot be read, lacks a column, or has rows that are wrong.
    """
    text, notes = _read_text(source, entry, limits=limits, encoding=encoding)
    head, lines = _read_lines(text, entry)
    columns = find_columns(head, [cells for _, cells in lines], files=names, target=target)
    if not columns.are_complete:
        reason = explain_columns(head, columns, files=names, target=target)
        raise refuse("no_labels", reason, entry.path)
    if columns.labels is None:
        if separator == ONE_CLASS:
            needless = (
                "has one column for each label, so labels_separator=none has nothing to keep "
                "whole; leave it out"
            )
            raise refuse("no_separator", needless, entry.path)
        notes.append(_say_marked(columns, entry))
    elif columns.is_guessed:
        notes.append(
            f"the column {show(columns.file or '')} of {show(entry.path)} names the files, so "
            f"{show(columns.labels)} has the labels"
        )
    mark = separator or SEPARATOR
    rows, problems = [], []
    for number, cells in lines:
        place = f"{entry.path}, line {number}"
        row = _read_row(dict(zip(head, cells, strict=False)), columns, place, separator=mark)
        rows.append(row)
        extra = find_extra(head, cells)
        message = (
            _find_mistake(row, has_split=columns.split is not None)
            if extra is None
            else explain_extra(quote(extra), SEPARATOR if mark == ONE_CLASS else mark)
        )
        if message:
            problems.append(problem("bad_label_row", message, row.place))
    if problems:
        raise Refused(problems)
    return rows, notes


def _say_marked(columns: LabelColumns, entry: Entry) -> str:
    names, others = columns.marks.columns, columns.marks.others
    more = f" and {len(names) - MAX_NAMED} more" if names[MAX_NAMED:] else ""
    left = f"; not read: {', '.join(map(show, others[:MAX_NAMED]))}" if others else ""
    return (
        f"{show(entry.path)} has one column for each label: "
        f"{', '.join(map(show, names[:MAX_NAMED]))}{more}{left}. If one column has the labels, "
        "choose it with target=COLUMN"
    )


def _read_lines(text: str, entry: Entry) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the cells of the first line, and those of the others with the numbers of the lines."""
    lines = text.splitlines(keepends=True)
    delimiter = find_delimiter(lines[0] if lines else "")
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    try:
        names = next(reader, [])
        # Spreadsheet programs write rows of empty cells.
        rows = [(reader.line_num, cells) for cells in reader if any(map(str.strip, cells))]
    except csv.Error as error:
        place = f"{entry.path}, line {reader.line_num}"
        raise refuse("not_a_table", f"cannot be read ({error})", place) from None
    return names, rows


def _read_row(
    cells: Mapping[str, str], columns: LabelColumns, place: str, *, separator: str
) -> LabelRow:
    split = cells.get(columns.split or "", "")
    return LabelRow(
        file=cells.get(columns.file or "", "").strip(),
        labels=split_cell(columns.read_labels(cells, separator), separator),
        split=SPLITS.get(split.strip().casefold()) if columns.split else None,
        place=place,
    )


def _read_text(
    source: Source, entry: Entry, *, limits: Limits, encoding: str | None
) -> tuple[str, list[str]]:
    found = encoding
    try:
        content = source.read(entry, limits=limits)
        found = encoding or find_encoding_of_names(content)
        text = content.decode(found)
    except BadImage as bad:
        raise refuse(bad.code, bad.message, entry.path) from None
    except OtherScriptError as error:
        raise refuse("bad_encoding", explain_script(error), entry.path) from None
    except UnicodeError:
        raise refuse_encoding(io.BytesIO(content), found or "utf-8", entry.path) from None
    is_guessed = encoding is None and found in ONE_BYTE
    return text, [say_guessed(found, show(entry.path))] if is_guessed else []


def _find_mistake(row: LabelRow, *, has_split: bool) -> str | None:
    if not row.file:
        return "has no file name"
    if has_split and row.split is None:
        return f"the row has no known split; use one of {', '.join(SPLITS)}"
    return None
