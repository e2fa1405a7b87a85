"""Rows that cannot be trained on: counted, listed, and skipped where they are few."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.report import MAX_LISTED, problem, show
from service.datasets.inspect.tables.raw import RawTable


class Places:
    """Where the rows of several files are, one after the other.

    Args:
        tables: the files, in the order of their rows.
    """

    def __init__(self, tables: list[RawTable]) -> None:
        self._tables = tables
        self._starts = np.cumsum([0, *(table.num_rows for table in tables)])

    def __call__(self, index: int) -> str:
        """The place of a row, by its index among all rows."""
        number = int(np.searchsorted(self._starts, index, side="right")) - 1
        return self._tables[number].place(index - int(self._starts[number]))


@dataclass
class RowFaults:
    """What is wrong with single rows.

    Attributes:
        is_bad: (N,) bool; rows that will be skipped, or for which the set is refused.
        listed: the first ones.
        num_unread: rows that are not even among the N.
    """

    places: Places
    is_bad: np.ndarray
    listed: list[DatasetProblem] = field(default_factory=list)
    num_unread: int = 0

    def add_unread(self, table: RawTable) -> None:
        """Take in what a reader set aside."""
        self.num_unread += len(table.bad.numbers)
        for position, (code, message) in enumerate(table.bad.reasons):
            if len(self.listed) < MAX_LISTED:
                self.listed.append(problem(code, message, table.bad_place(position)))

    def add(self, is_bad: np.ndarray, code: str, describe: Callable[[int], str] | str) -> None:
        """Note rows.

        Args:
            is_bad: (N,) bool.
            code: machine-readable kind.
            describe: what is wrong with them, or with the row of an index.
        """
        new = np.flatnonzero(is_bad & ~self.is_bad)
        self.is_bad |= is_bad
        for index in new[: max(0, MAX_LISTED - len(self.listed))]:
            message = describe if isinstance(describe, str) else describe(int(index))
            self.listed.append(problem(code, message, self.places(int(index))))

    @property
    def num_bad(self) -> int:
        """Rows that are bad."""
        return self.num_unread + int(self.is_bad.sum())

    def find_errors(self, limits: Limits) -> list[DatasetProblem]:
        """That there are too many of them, if there are."""
        num_rows = self.num_unread + len(self.is_bad)
        if self.num_bad <= num_rows * limits.max_skipped_fraction:
            return []
        message = (
            f"{self.num_bad} of {num_rows} rows cannot be used, but at most "
            f"{limits.max_skipped_fraction:.0%} are skipped; repair or remove them"
        )
        return [problem("too_many_bad_rows", message), *self.listed]


def list_bad_targets(
    is_bad: np.ndarray,
    places: Places,
    *,
    target: str,
    what: str,
    describe: Callable[[int], str],
    remedy: str,
) -> list[DatasetProblem]:
    """One problem that counts rows whose target is of no use, and one for each of the first ones.

    Args:
        is_bad: (N,) bool.
        places: of the rows.
        target: name of the column.
        what: is wrong with them, after `12 rows`.
        describe: what is wrong with the row of an index.
        remedy: what to do.
    """
    bad = np.flatnonzero(is_bad)
    if not len(bad):
        return []
    rows = "1 row has" if len(bad) == 1 else f"{len(bad)} rows have"
    message = f"target {show(target)!r}: {rows} {what}; {remedy}"
    shown = bad[: MAX_LISTED // 2]
    return [
        problem("bad_target", message),
        *(problem("bad_target", describe(int(row)), places(int(row))) for row in shown),
    ]
