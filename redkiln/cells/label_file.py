"""`labels.csv` next to images: its columns, and how its cells are read."""

from collections.abc import Sequence
from dataclasses import dataclass

NAME = "labels.csv"
SEPARATOR = ";"
"""Separator of the labels in a cell, unless the owner of a set gives another one."""
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


def split_cell(cell: str, separator: str) -> list[str]:
    """Return the labels in a cell, sorted; blanks, empty parts and repetitions do not count."""
    return sorted({part.strip() for part in cell.split(separator)} - {""})
