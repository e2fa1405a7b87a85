"""What a user should know about rows that were read: doubtful numbers, unknown categories, gaps."""

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from redkiln.cells.amounts import Amount, describe_doubt

MOST_UNKNOWN = 5
MOST_PLACES = 3


class Doubt(NamedTuple):
    """A number that may be meant otherwise.

    Attributes:
        place: File and line, such as `rows.csv:3`.
        text: The number as written.
    """

    place: str
    text: str
    amount: Amount


class RowNotes:
    """Collects what is noticed about rows, and describes it once for each column.

    Args:
        complete: Columns that had a value in every row of the training split.
    """

    def __init__(self, *, complete: Collection[str]) -> None:
        self._complete = complete
        self._num_rows = 0
        self._gaps: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()
        self._doubts: dict[tuple[str, str], list[Doubt]] = {}
        self._no_dates: dict[str, dict[str, str]] = {}
        self._columns: dict[str, str] = {}
        self._used: set[str] = set()

    def add_row(self, missing: Collection[str]) -> None:
        """Count a row, and its columns without a value."""
        self._num_rows += 1
        self._gaps.update(missing)

    def add_columns(self, names: Collection[str], place: str) -> None:
        """Keep columns that the training table does not have, with the first row that has them."""
        for name in names:
            self._columns.setdefault(name, place)

    def add_used(self, column: str) -> None:
        """Keep a column that is read although the model does not know it, such as a target."""
        self._used.add(column)

    def add_unknown(self, column: str, text: str) -> None:
        """Count a category that the training table does not have."""
        self._unknown[f"{column} {text!r}"] += 1

    def add_doubt(self, column: str, doubt: Doubt) -> None:
        """Keep a number that may be meant otherwise."""
        self._doubts.setdefault((column, doubt.amount.doubt), []).append(doubt)

    def add_no_date(self, column: str, text: str, place: str) -> None:
        """Keep a value that is not a date; the same place may be added several times."""
        self._no_dates.setdefault(column, {}).setdefault(place, text)

    def list(self) -> list[str]:
        """Return the notes."""
        notes = [_describe_doubts(column, found) for (column, _), found in self._doubts.items()]
        notes += [_describe_no_dates(*found) for found in self._no_dates.items()]
        notes += filter(None, (self._describe_gaps(*gap) for gap in self._gaps.items()))
        notes += filter(None, [self._describe_columns()])
        if self._unknown:
            common = self._unknown.most_common(MOST_UNKNOWN)
            listed = ", ".join(f"{text} ({count})" for text, count in common)
            num_more = len(self._unknown) - MOST_UNKNOWN
            more = f" and {num_more} others" if num_more > 0 else ""
            notes.append(
                f"Values that the training table does not have count as missing: {listed}{more}"
            )
        return notes

    def _describe_columns(self) -> str:
        unknown = [(name, place) for name, place in self._columns.items() if name not in self._used]
        if not unknown:
            return ""
        listed = ", ".join(f"{name} ({place})" for name, place in unknown[:MOST_UNKNOWN])
        num_more = len(unknown) - MOST_UNKNOWN
        more = f" and {num_more} others" if num_more > 0 else ""
        return (
            f"Columns that the training table does not have are not read: {listed}{more}. If a "
            "name is misspelt, correct it."
        )

    def _describe_gaps(self, column: str, num: int) -> str:
        advice = "Check the table; the predictions treat these values as unknown."
        if num == self._num_rows > 1:
            return f"Column {column} is empty in all {num:,} rows. {advice}"
        if column not in self._complete:
            return ""
        rows = f"{num:,} of {self._num_rows:,} rows" if self._num_rows > 1 else "the row"
        return f"Column {column} is empty in {rows}, but never was in training. {advice}"


def _describe_doubts(column: str, found: list[Doubt]) -> str:
    first, *others = found
    note = f"{first.place}, column {column}: {describe_doubt(first.text, first.amount)}."
    if not others:
        return note
    shown = [f"{one.place} ({one.text!r} as {one.amount.number:.15g})" for one in others]
    dots = ", ..." if len(others) > MOST_PLACES else ""
    return f"{note} {len(others):,} more: {', '.join(shown[:MOST_PLACES])}{dots}"


def _describe_no_dates(column: str, found: dict[str, str]) -> str:
    shown = [f"{text!r} ({place})" if place else repr(text) for place, text in found.items()]
    dots = ", ..." if len(shown) > MOST_PLACES else ""
    listed = f"{', '.join(shown[:MOST_PLACES])}{dots}"
    what = (
        "a value that is not a date counts"
        if len(shown) == 1
        else (f"{len(shown):,} values that are not dates count")
    )
    return f"Column {column}: {what} as missing, as in training: {listed}"
