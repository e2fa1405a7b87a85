"""`labels.csv` next to images: its columns, and how its cells are read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from redkiln.cells.file_names import FileNames
from redkiln.cells.marks import NO_MARKS, Marks, find_marks

NAME = "labels.csv"
SEPARATOR = ";"
"""Separator of the labels in a cell, unless the owner of a set gives another one."""
ONE_CLASS = "none"
"""Given instead of a separator if each cell is one class, even if it looks like a list."""
_FILES = ("file", "filename", "file_name", "image", "path", "name")
_LABELS = ("labels", "label", "tags", "tag", "classes", "class", "categories", "category")
_SPLITS = ("split", "subset", "partition")


@dataclass(frozen=True)
class LabelColumns:
    """Names of the columns, as they are written; None for those that the file lacks.

    Attributes:
        is_guessed: Whether the first two were found by the cells, as their names are not usual.
        marks: The columns of which each is a label, if no single one has the labels.
    """

    file: str | None
    labels: str | None
    split: str | None
    is_guessed: bool = False
    marks: Marks = NO_MARKS

    @property
    def are_complete(self) -> bool:
        """Whether the file names and the labels were found."""
        return self.file is not None and (self.labels is not None or bool(self.marks.columns))

    def read_labels(self, cells: Mapping[str, str], separator: str) -> str:
        """Return the labels of a row as one cell.

        Args:
            cells: Cells of the row by column.
            separator: Separator of the labels in a cell.
        """
        if self.labels is None:
            return separator.join(self.marks.list_labels(cells))
        return cells.get(self.labels, "")


def find_columns(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    files: FileNames,
    target: str | None = None,
) -> LabelColumns:
    """Find the columns by their usual names, in any case, or by their cells.

    If no single column has the labels, each column of marks, such as `x`, is a label.

    Args:
        names: Names of the columns, from the first line.
        rows: Cells of the other lines.
        files: The files of the folder.
        target: Name of the column with the labels, if the user gave it.
    """
    if any(files.find_whole(name) is not None for name in names):  # the first line is a row
        return LabelColumns(None, None, None)
    by_name = {name.strip().casefold(): name for name in reversed(names) if name.strip()}

    def find(known: Sequence[str]) -> str | None:
        return next((by_name[name] for name in known if name in by_name), None)

    usual_file, usual_labels, split = find(_FILES), find(_LABELS), find(_SPLITS)

    def list_holding(find_file: Callable[[str], int | None], **options: bool) -> list[str]:
        columns = ((name, _list_cells(names.index(name), rows)) for name in by_name.values())
        return [name for name, cells in columns if _are_files(cells, find_file, **options)]

    # Numbers can be names without an ending, but those of a class or a size repeat.
    holding = list_holding(files.find_whole) or list_holding(files.find, are_distinct=True)
    file = holding[0] if len(holding) == 1 else usual_file
    others = [name for name in reversed(by_name.values()) if name not in (file, split)]
    only = others[0] if file is not None and len(others) == 1 else None
    labels = usual_labels if usual_labels in others else only
    if target is not None:
        labels = next((name for name in others if name.strip() == target.strip()), None)
        return LabelColumns(file, labels, split)
    marks = NO_MARKS
    if file is not None and labels is None:
        marks = find_marks({name: _list_cells(names.index(name), rows) for name in others})
    is_guessed = (file, labels) != (usual_file, usual_labels)
    return LabelColumns(file, labels, split, is_guessed, marks)


def explain_columns(
    names: Sequence[str], found: LabelColumns, *, files: FileNames, target: str | None = None
) -> str:
    """Return that a column was not found, and what to do, as a predicate of `labels.csv`.

    Args:
        names: Cells of the first line.
        found: The columns, of which that of the files or that of the labels is missing.
        files: The files of the folder.
        target: Name of the column with the labels, if the user gave it.
    """
    rows = (name.strip() for name in names if files.find_whole(name) is not None)
    if first := next(rows, None):
        return (
            f"does not name its columns: the first line has the file {first}; add `file,labels` "
            "before it"
        )
    listed = ", ".join(name for name in names[:10] if name.strip()) or "no columns"
    if found.file is not None and target is not None:
        return (
            f"has the columns {listed}; {found.file} has the file names, and no other one is "
            f"called {target}"
        )
    if found.file is not None and found.marks.stray is not None:
        column, cell = found.marks.stray
        return (
            f"has the columns {listed}; this looks like one column for each label, but the cell "
            f"{cell[:40]!r} in {column} is neither a mark, such as x or 1, nor 0; mend it, or "
            "choose the column of the labels with target=COLUMN"
        )
    if found.file is not None:
        return (
            f"has the columns {listed}; {found.file} has the file names, but it is not clear which "
            "has the labels; choose it with target=COLUMN"
        )
    return (
        f"has the columns {listed}, and it is not clear which of them has the file names and which "
        "the labels; name the one `file` and the other `labels` in the first line"
    )


def _list_cells(place: int, rows: Sequence[Sequence[str]]) -> list[str]:
    return [row[place].strip() for row in rows if place < len(row) and row[place].strip()]


def _are_files(
    cells: Sequence[str], find_file: Callable[[str], int | None], *, are_distinct: bool = False
) -> bool:
    """Return whether at least half of a column's cells name files, each another one if asked."""
    found = [place for place in map(find_file, cells) if place is not None]
    return bool(cells) and 2 * len(set(found) if are_distinct else found) >= len(cells)


def find_delimiter(head: str) -> str:
    """Return the delimiter of the fields, from the first line."""
    return next((mark for mark in ("\t", ",", ";") if mark in head), ",")


def find_extra(names: Sequence[str], cells: Sequence[str]) -> str | None:
    """Return the first value of a row that is in no named column; None if all have one.

    A first column without a name has the numbers of the rows, as pandas writes them.
    """
    pairs = list(zip_longest(names, cells, fillvalue=""))[1:]
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
