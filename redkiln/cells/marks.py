"""Columns that hold marks of yes and no, as a spreadsheet has them for each label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_YES = frozenset(("x", "1", "1.0", "yes", "y", "ja", "j", "true", "wahr", "✓", "✔", "☑"))
_NO = frozenset(
    ("", "0", "0.0", "no", "n", "nein", "false", "falsch", "-", "\u2013", "\u2014", "✗", "☐")
)
FEWEST_COLUMNS = 2


@dataclass(frozen=True)
class Marks:
    """Columns of which each is a label.

    Attributes:
        columns: Names of the columns, as they are written; empty unless at least two hold marks.
        others: Names of the filled columns that hold something else.
        stray: A column of marks, with the first of its other cells; None without such a cell.
    """

    columns: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    stray: tuple[str, str] | None = None

    def list_labels(self, cells: Mapping[str, str]) -> list[str]:
        """Return the labels that a row, with its cells by column, has a mark of yes for."""
        return [name.strip() for name in self.columns if _tidy(cells.get(name, "")) in _YES]


NO_MARKS = Marks()


def find_marks(columns: Mapping[str, Sequence[str]]) -> Marks:
    """Find the columns that hold marks only; one with more other cells than marks is not a label.

    Args:
        columns: The cells that are not empty, by the name of the column.
    """
    found, others = [], []
    stray: tuple[str, str] | None = None
    for name, cells in columns.items():
        wrong = [cell for cell in cells if _tidy(cell) not in _YES | _NO]
        if 2 * len(wrong) > len(cells):
            others.append(name)
        elif wrong:
            stray = stray or (name, wrong[0])
        elif cells:
            found.append(name)
    if len(found) + (stray is not None) < FEWEST_COLUMNS:
        return NO_MARKS
    return Marks((), (), stray) if stray else Marks(tuple(found), tuple(others))


def _tidy(cell: str) -> str:
    return cell.strip().casefold()
