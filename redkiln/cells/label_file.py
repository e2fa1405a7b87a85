"""`labels.csv` next to images: its columns, and how its cells are read."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

NAME = "labels.csv"
SEPARATOR = ";"
"""Separator of the labels in a cell, unless the owner of a set gives another one."""
ONE_CLASS = "none"
"""Given instead of a separator if each cell is one class, even if it looks like a list."""
_FILES = ("file", "filename", "file_name", "image", "path", "name")
_LABELS = ("labels", "label", "tags", "classes", "class")
_SPLITS = ("split", "subset", "partition")


@dataclass(frozen=True)
class LabelColumns:
    """Names of the columns, as they are written; None for those that the file lacks."""

    file: str | None
    labels: str | None
    split: str | None


def find_columns(names: Sequence[str]) -> LabelColumns:
    """Find the columns by their usual names, in any case."""
    by_name = {name.strip().casefold(): name for name in reversed(names) if name}

    def find(known: Sequence[str]) -> str | None:
        return next((by_name[name] for name in known if name in by_name), None)

    return LabelColumns(find(_FILES), find(_LABELS), find(_SPLITS))


def find_delimiter(head: str) -> str:
    """Return the delimiter of the fields, from the first line."""
    return next((mark for mark in ("\t", ",", ";") if mark in head), ",")


def find_extra(names: Sequence[str], cells: Sequence[str]) -> str | None:
    """Return the first value of a row that is in no named column; None if all have one."""
    pairs = zip_longest(names, cells, fillvalue="")
    return next((cell.strip() for name, cell in pairs if cell.strip() and not name.strip()), None)


def explain_extra(shown: str, separator: str) -> str:
    """Return what is wrong with a row that has a value in no named column, as a predicate.

    Args:
        shown: The value in quotes.
        separator: Separator of the labels in a cell.
    """
    return (
        f"has {shown} outside the columns of the first line; write all labels of an image into "
        f'one cell, as "red{separator}blue" in double quotes'
    )


def split_cell(cell: str, separator: str) -> list[str]:
    """Return the labels in a cell, sorted; blanks, empty parts and repetitions do not count."""
    parts = [cell] if separator == ONE_CLASS else cell.split(separator)
    return sorted({part.strip() for part in parts} - {""})
