"""Reads `labels.csv`: a file and its labels in each row, and optionally the split."""

import csv
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from redkiln.cells.encoding import ONE_BYTE, OtherScriptError, find_encoding_of_names
from redkiln.cells.label_file import (
    NAME,
    ONE_CLASS,
    SEPARATOR,
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
    explain_damage,
    explain_script,
    problem,
    quote,
    refuse,
    say_guessed,
    show,
)
from service.datasets.inspect.source import Source


@dataclass(frozen=True)
class LabelRow:
    """A row: the file as it is written there, its labels, and its place in `labels.csv`."""

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
    separator: str | None,
    limits: Limits,
    encoding: str | None = None,
) -> tuple[list[LabelRow], list[str]]:
    """Return the rows of `labels.csv`, and a note if its encoding was guessed.

    Args:
        source: The data set.
        entry: The file.
        separator: Separator of the labels in a cell; None for `;`, `none` if each is one class.
        limits: Limits of the inspection.
        encoding: Encoding of the file, if the user gave one.

    Raises:
        Refused: The file cannot be read, lacks a column, or has rows that are wrong.
    """
    text, notes = _read_text(source, entry, limits=limits, encoding=encoding)
    mark = separator or SEPARATOR
    lines = text.splitlines(keepends=True)
    delimiter = find_delimiter(lines[0] if lines else "")
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    rows, problems = [], []
    try:
        names = next(reader, [])
        file, labels, split = _find_columns(names, entry)
        for written in reader:
            if not any(cell.strip() for cell in written):
                continue  # spreadsheet programs write rows of empty cells
            cells = defaultdict(str, zip(names, written, strict=False))
            row = LabelRow(
                file=cells[file].strip(),
                labels=split_cell(cells[labels], mark),
                split=SPLITS.get(cells[split].strip().casefold()) if split else None,
                place=f"{entry.path}, line {reader.line_num}",
            )
            rows.append(row)
            extra = find_extra(names, written)
            message = (
                _find_mistake(row, has_split=split is not None)
                if extra is None
                else explain_extra(quote(extra), SEPARATOR if mark == ONE_CLASS else mark)
            )
            if message:
                problems.append(problem("bad_label_row", message, row.place))
    except csv.Error as error:
        place = f"{entry.path}, line {reader.line_num}"
        raise refuse("not_a_table", f"cannot be read ({error})", place) from None
    if problems:
        raise Refused(problems)
    return rows, notes


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
    except UnicodeError as error:
        message = explain_damage(found or "UTF-8", error)
        raise refuse("bad_encoding", message, entry.path) from None
    is_guessed = encoding is None and found in ONE_BYTE
    return text, [say_guessed(found, show(entry.path))] if is_guessed else []


def _find_columns(names: Sequence[str], entry: Entry) -> tuple[str, str, str | None]:
    found = find_columns(names)
    if found.file is None or found.labels is None:
        listed = ", ".join(show(name) for name in names[:10]) or "nothing"
        message = (
            f"the first line has to name the columns `file` and `labels`, and optionally `split`, "
            f"but it has {listed}"
        )
        raise refuse("no_labels", message, entry.path)
    return found.file, found.labels, found.split


def _find_mistake(row: LabelRow, *, has_split: bool) -> str | None:
    if not row.file:
        return "has no file name"
    if not row.labels:
        return (
            f"{show(row.file)} has no label; remove the row, or give images that have none of the "
            "labels a label of their own, such as `other`"
        )
    if has_split and row.split is None:
        return f"{show(row.file)} has no known split; use one of {', '.join(SPLITS)}"
    return None
