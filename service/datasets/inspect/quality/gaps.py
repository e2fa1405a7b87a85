"""Warns of columns that give the class away by being filled, or by being empty.

Shapes: N rows, C classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from redkiln.tables import TableOptions
from redkiln.views.dataset import LEAKING_COLUMNS, DatasetProblem
from service.datasets.inspect.report import advise_without, problem, show

FEWEST_ROWS = 20
"""Fewest filled, or empty, rows that can give a class away."""
PURE = 0.99
"""Share of these rows from which on they are said to be of one class."""
MOST_ELSEWHERE = 0.5
"""Largest share of this class among the other rows."""
CHANCE = 1e-6
"""Probability below which so many rows are not of one class by chance."""
SHOWN = 5


@dataclass(frozen=True)
class Tell:
    """How a column gives a class away.

    Attributes:
        name: Name of the column in the file.
        state: State that gives it away.
        num_rows: Number of rows in this state.
        num_right: Number of them that are of the class.
        label: The class.
    """

    name: str
    state: str
    num_rows: int
    num_right: int
    label: int


def find_tells(
    gaps: Mapping[str, np.ndarray], targets: np.ndarray, *, num_classes: int
) -> list[Tell]:
    """Return the columns that give a class away; if both states do, filled is named.

    Args:
        gaps: (N,) bool of each column; True where it is empty.
        targets: (N,) labels.
        num_classes: C.
    """
    totals = np.bincount(targets, minlength=num_classes)
    found: dict[str, Tell] = {}
    for name, is_empty in gaps.items():
        empty = np.bincount(targets[is_empty], minlength=num_classes)
        for state, counts in (("empty", empty), ("filled", totals - empty)):
            if (label := _find_class(counts, totals)) is not None:
                found[name] = Tell(name, state, int(counts.sum()), int(counts[label]), label)
    return list(found.values())


def _find_class(counts: np.ndarray, totals: np.ndarray) -> int | None:
    """Return the class of rows (C,) if nearly all are of one that is rare elsewhere."""
    num, num_all, label = int(counts.sum()), int(totals.sum()), int(counts.argmax())
    if num < FEWEST_ROWS or num == num_all or counts[label] < PURE * num:
        return None
    elsewhere = (totals[label] - counts[label]) / (num_all - num)
    is_chance = (totals[label] / num_all) ** num > CHANCE
    return None if elsewhere > MOST_ELSEWHERE or is_chance else label


def warn_of_tells(
    tells: Sequence[Tell], classes: Sequence[str], options: TableOptions
) -> list[DatasetProblem]:
    """Return a warning about the columns that give a class away.

    Args:
        tells: The columns.
        classes: Names of all classes.
        options: The user's options.
    """
    if not tells:
        return []
    named = "; ".join(_describe(tell, classes) for tell in tells[:SHOWN])
    more = f"; and {len(tells) - SHOWN} more columns" if len(tells) > SHOWN else ""
    message = (
        f"{named}{more}; if you know this only after the target, the model will fail on new data; "
        + advise_without([tell.name for tell in tells[:SHOWN]], options)
    )
    return [problem(LEAKING_COLUMNS, message)]


def _describe(tell: Tell, classes: Sequence[str]) -> str:
    share = "all" if tell.num_right == tell.num_rows else f"{tell.num_right:,}"
    return (
        f"column {show(tell.name)} is {tell.state} in {tell.num_rows:,} rows, {share} of which are "
        f"`{show(classes[tell.label])}`"
    )
