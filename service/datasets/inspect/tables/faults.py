"""Rows that cannot be used: counted, listed, and skipped if they are few."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.limits import Limits, describe_skipping, may_skip
from service.datasets.inspect.report import MAX_LISTED, problem, quote
from service.datasets.inspect.tables.profile import explain_empty
from service.datasets.inspect.tables.raw import RawTable

_MOST_PLACES = 10
"""Rows without a target whose places a message lists."""


class RowLocations:
    """The places (file and line) of the rows of several files, numbered consecutively.

    Args:
        tables: The files, in the order of their rows.
    """

    def __init__(self, tables: list[RawTable]) -> None:
        self._tables = tables
        self._starts = np.cumsum([0, *(table.num_rows for table in tables)])

    def __call__(self, index: int) -> str:
        """Return the place of a row, by its index among all rows."""
        number = int(np.searchsorted(self._starts, index, side="right")) - 1
        return self._tables[number].place(index - int(self._starts[number]))

    def list_places(self, rows: np.ndarray) -> pa.Array:
        """Return the places (N,) of many rows, by their indices among all rows."""
        tables = np.searchsorted(self._starts, rows, side="right") - 1
        places = [
            table.list_places(rows[tables == number] - self._starts[number])
            for number, table in enumerate(self._tables)
        ]
        order = np.argsort(tables, kind="stable")
        return pa.concat_arrays(places).take(pa.array(np.argsort(order)))


@dataclass
class RowFaults:
    """Problems of single rows.

    Attributes:
        is_bad: (N,) bool; rows that are skipped, or because of which the set is refused.
        listed: Problems of the first bad rows.
        num_unread: Rows that could not be read and so are not among the N.
    """

    locate: RowLocations
    is_bad: np.ndarray
    listed: list[DatasetProblem] = field(default_factory=list)
    num_unread: int = 0

    def add_unread(self, table: RawTable) -> None:
        """Add the rows that a reader set aside."""
        self.num_unread += len(table.bad.numbers)
        for position, (code, message) in enumerate(table.bad.reasons):
            if len(self.listed) < MAX_LISTED:
                self.listed.append(problem(code, message, table.bad_place(position)))

    def add(self, is_bad: np.ndarray, code: str, describe: Callable[[int], str] | str) -> None:
        """Add bad rows.

        Args:
            is_bad: (N,) bool.
            code: machine-readable kind.
            describe: The message, or a function that returns it for a row's index.
        """
        new = np.flatnonzero(is_bad & ~self.is_bad)
        self.is_bad |= is_bad
        for index in new[: max(0, MAX_LISTED - len(self.listed))]:
            message = describe if isinstance(describe, str) else describe(int(index))
            self.listed.append(problem(code, message, self.locate(int(index))))

    @property
    def num_bad(self) -> int:
        """Number of bad rows."""
        return self.num_unread + int(self.is_bad.sum())

    def find_errors(self, limits: Limits) -> list[DatasetProblem]:
        """Return the problem that there are too many bad rows, if so."""
        num_rows = self.num_unread + len(self.is_bad)
        if may_skip(self.num_bad, total=num_rows, limits=limits):
            return []
        skipping = describe_skipping(self.num_bad, total=num_rows, limits=limits)
        message = f"{self.num_bad} of {num_rows} rows cannot be used{skipping}"
        return [problem("too_many_bad_rows", message), *self.listed]


def list_bad_targets(
    is_bad: np.ndarray,
    locate: RowLocations,
    *,
    target: str,
    what: str,
    describe: Callable[[int], str],
    remedy: str,
) -> list[DatasetProblem]:
    """Build a problem that counts the rows with a bad target, and one for each of the first rows.

    Rows that are merely empty need no problem each: the first one lists their places.

    Args:
        is_bad: (N,) bool.
        locate: Returns the place of a row, such as `data.csv:7`.
        target: Name of the target column.
        what: The fault of the rows, to complete `12 rows have ...`.
        describe: Function that returns the message for a row's index.
        remedy: The thing to do about it.
    """
    bad = np.flatnonzero(is_bad)
    if not len(bad):
        return []
    rows = "1 row has" if len(bad) == 1 else f"{len(bad)} rows have"
    shown = [(describe(int(row)), locate(int(row))) for row in bad[: MAX_LISTED // 2]]
    if all(message == explain_empty(target) for message, _ in shown):
        places = [place for _, place in shown]
        where = f" ({_join_places(places, num=len(bad))})" if len(bad) > 1 else ""
        message = f"target {quote(target)}: {rows} no value{where}; {remedy}"
        return [problem("bad_target", message, None if where else places[0])]
    return [
        problem("bad_target", f"target {quote(target)}: {rows} {what}; {remedy}"),
        *(problem("bad_target", message, place) for message, place in shown),
    ]


def _join_places(places: list[str], *, num: int) -> str:
    shown = places[:_MOST_PLACES]
    if all(place.startswith("line ") for place in shown):
        shown = [f"lines {shown[0].removeprefix('line ')}", *(one[5:] for one in shown[1:])]
    more = f" and {num - len(shown)} more" if num > len(shown) else ""
    return ", ".join(shown) + more
