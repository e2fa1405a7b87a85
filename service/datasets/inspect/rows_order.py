"""What the process that reads rows is asked, and what it answers."""

from typing import Literal

from pydantic import BaseModel

RESULT = "rows.json"


class RowsOrder(BaseModel):
    """Rows to read.

    Attributes:
        path: Path of the table's index.
        label: Class of the rows; None for all.
        after: Position in the split to continue after; -1 for the start.
        is_mixed: Whether to list the first row of each class, then the second of each, and so on.
        parent_pid: Process that waits for the rows; this one ends with it.
    """

    path: str
    split: Literal["train", "test"]
    label: int | None
    after: int
    limit: int
    is_mixed: bool = False
    parent_pid: int


class Row(BaseModel):
    """A row as text; a missing cell is None."""

    position: int
    target: str
    cells: list[str | None]


class Rows(BaseModel):
    """The rows that were read, and the names of their cells' columns."""

    columns: list[str]
    num_columns: int
    rows: list[Row]
