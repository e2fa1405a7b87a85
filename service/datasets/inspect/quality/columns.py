"""Warns of columns that predict the target alone, and of columns that are left out.

Shapes: N rows, C classes.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from redkiln.tables import TARGET, Column, TableIndex, TableOptions
from redkiln.views.dataset import LEAKING_COLUMNS, UNUSED_COLUMNS, ColumnView, DatasetProblem
from service.datasets.inspect.report import (
    DERIVED_NOTE,
    WORDS_NOTE,
    advise_without,
    problem,
    repeat_options,
    show,
)
from service.datasets.inspect.tables.value_types.unread import WITH_UNIT

MOST_SAMPLED = 100_000
"""Rows that are read for these checks, evenly spaced."""
LEAST_TESTED = 10
NUM_BINS = 64
LEAKING = 0.995
"""Share of right answers, or of explained variance, from which a column leaks."""
ALONE_RIGHT, ALONE_EXPLAINED = 0.95, 0.99
"""The same shares from which a column is reported if every other column says far less."""
ALONE_GAIN = 0.8
FAR_LESS = 0.5
"""Part of a column's gain that no other column reaches, if it stands out."""
LEAST_TESTED_ALONE = 50
"""Rows without which a column of noise may be right so often by chance."""
ON_REQUEST = "by request"
"""Why a column is ignored that its owner does not want."""
SHOWN, SHOWN_UNUSED = 10, 5
"""Columns that a message names."""


def check_columns(
    table: pa.Table, index: TableIndex, options: TableOptions, *, told: Collection[str] = ()
) -> list[DatasetProblem]:
    """Return warnings about the columns of a table that is not of texts.

    Args:
        table: The table.
        index: Its index.
        options: The user's options.
        told: Columns of the file that another warning is about; these are not checked, nor is what
            is derived from them.
    """
    columns = [
        column
        for column in index.columns
        if column.type != "text" and not _list_origins(column) & set(told)
    ]
    step = -(-table.num_rows // MOST_SAMPLED)
    rows = np.arange(0, table.num_rows, step)
    targets = table.column(TARGET).to_numpy()[rows]
    powers = {}
    for column in columns if len(columns) > 1 else ():
        values = table.column(column.name).cast(pa.float64()).to_numpy()[rows]
        powers[column.name] = _measure(values, targets, column, num_classes=len(index.classes))
    leaking = [name for name, power in powers.items() if power.leaks]
    return [
        *_warn_of_leaks(leaking, options),
        *_warn_of_lone(powers, options, has_classes=bool(index.classes)),
    ]


def _list_origins(column: Column) -> set[str | None]:
    """Return the columns of the file that a column comes from."""
    derived = column.derived
    return {column.name} if derived is None else {derived.column, derived.since}


@dataclass(frozen=True)
class _Power:
    """How well a column alone predicts the target, on rows that it was not learnt from.

    Attributes:
        share: Share of right answers, or of explained variance.
        gained: Part of what there is to gain over always giving the same answer.
        num_tested: Number of predicted rows.
    """

    share: float = 0.0
    gained: float = 0.0
    num_tested: int = 0

    @property
    def leaks(self) -> bool:
        """Whether the column predicts the target nearly without a mistake."""
        return self.share >= LEAKING and self.gained >= 0.9


def check_dropped(columns: Sequence[ColumnView], options: TableOptions) -> list[DatasetProblem]:
    """Return a warning about columns that the inspection left out by itself."""
    dropped = [
        column
        for column in columns
        if column.type == "ignored"
        and column.note not in (None, ON_REQUEST)
        and not str(column.note).startswith((DERIVED_NOTE, WORDS_NOTE))
    ]
    if not dropped:
        return []
    reasons = "; ".join(f"{c.name}: {c.note}" for c in dropped[:SHOWN_UNUSED])
    more = f"; and {len(dropped) - SHOWN_UNUSED} more" if len(dropped) > SHOWN_UNUSED else ""
    message = f"{UNUSED_COLUMNS}{reasons}{more}"
    usable = [column.name for column in dropped if WITH_UNIT not in str(column.note)]
    if usable:
        one, name = show(usable[0]), usable[0]
        if len(usable) > 1:
            those = _list(usable) if len(usable) < len(dropped) else "them"
            one, name = f"one of {those}", "NAME"
        told = repeat_options(options, {name: "categorical"})
        message += (
            f"; to use {one}, push the table again with {told}, or with `numeric` if its values "
            "are numbers"
        )
    return [problem("dropped_columns", message)]


def find_explained_share(numbers: np.ndarray, targets: np.ndarray) -> float:
    """Return the share of a target's variance that ranges of a column's numbers explain.

    Args:
        numbers: (N,) float64, NaN where missing.
        targets: (N,) float64, NaN where missing.
    """
    is_known = np.isfinite(targets)
    places = _places(numbers[is_known], Column(name="", type="numeric"))
    if int(is_known.sum()) < 2 * LEAST_TESTED:
        return 0.0
    return _explained(places, targets[is_known], int(places.max()) + 1)


def _measure(
    values: np.ndarray, targets: np.ndarray, column: Column, *, num_classes: int
) -> _Power:
    """Measure how well a column alone predicts the target.

    Half of the rows say which answer belongs to a category, or to a range of numbers; the other
    half are predicted.

    Args:
        values: (N,) float64 numbers or codes, NaN where missing.
        targets: (N,) labels, or values.
        column: The column.
        num_classes: C; 0 for a regression.
    """
    places = _places(values, column)
    num_places = int(places.max(initial=0)) + 1
    learnt, tested = slice(0, None, 2), slice(1, None, 2)
    num_tested = len(targets[tested])
    if num_tested < LEAST_TESTED or num_places > len(targets) / 4:
        return _Power()
    if not num_classes:
        line = _fit_line(values, targets) if column.type == "numeric" else 0.0
        share = max(line, _explained(places, targets, num_places))
        return _Power(share, share, num_tested)
    counts = np.zeros((num_places, num_classes))
    np.add.at(counts, (places[learnt], targets[learnt]), 1)
    right = float((counts.argmax(axis=1)[places[tested]] == targets[tested]).mean())
    majority = np.bincount(targets[tested]).max() / num_tested
    # Better than the majority by most of what there is to gain.
    return _Power(right, (right - majority) / max(1 - majority, 1e-9), num_tested)


def _places(values: np.ndarray, column: Column) -> np.ndarray:
    """Return the category, or the range of numbers, of each row; 0 where missing."""
    if column.type == "categorical":
        return np.where(np.isnan(values), 0, values + 1).astype(np.int64)
    present = values[~np.isnan(values)]
    distinct = np.unique(present)
    if len(distinct) <= NUM_BINS and len(distinct) < len(values) // 4:
        edges = distinct
    else:
        num_bins = min(NUM_BINS, max(2, len(present) // 8))
        edges = np.unique(np.quantile(present, np.arange(num_bins) / num_bins))
    places = np.searchsorted(edges, values, side="right")
    return np.where(np.isnan(values), 0, places).astype(np.int64)


def _explained(places: np.ndarray, targets: np.ndarray, num_places: int) -> float:
    """Return the share of the targets' variance between the places, on rows not learnt from."""
    learnt, tested = slice(0, None, 2), slice(1, None, 2)
    counts = np.bincount(places[learnt], minlength=num_places)
    sums = np.bincount(places[learnt], weights=targets[learnt], minlength=num_places)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), targets[learnt].mean())
    error = ((targets[tested] - means[places[tested]]) ** 2).mean()
    spread = targets[tested].var()
    return float(1 - error / spread) if spread > 0 else 0.0


def _fit_line(values: np.ndarray, targets: np.ndarray) -> float:
    """Return the share of the targets' variance that a line through the values explains."""
    is_present = np.isfinite(values)
    values, targets = values[is_present], targets[is_present]
    if len(values) < 2 * LEAST_TESTED or not values.std() or not targets.std():
        return 0.0
    return float(np.corrcoef(values, targets)[0, 1] ** 2)


def _warn_of_leaks(names: list[str], options: TableOptions) -> list[DatasetProblem]:
    if not names:
        return []
    each = "column" if len(names) == 1 else "each of the columns"
    message = (
        f"{each} {_list(names)} predicts the target almost without mistakes; if you know its "
        "values only after the target, the model will fail on new data; "
        + advise_without(names[:3], options)
    )
    return [problem(LEAKING_COLUMNS, message)]


def _warn_of_lone(
    powers: dict[str, _Power], options: TableOptions, *, has_classes: bool
) -> list[DatasetProblem]:
    """Return a warning about columns that say nearly all, if all other columns say far less."""
    least = ALONE_RIGHT if has_classes else ALONE_EXPLAINED
    strong = {
        name: power
        for name, power in powers.items()
        if power.leaks
        or (
            power.share >= least
            and power.gained >= ALONE_GAIN
            and power.num_tested >= LEAST_TESTED_ALONE
        )
    }
    best_of_others = max((p.gained for name, p in powers.items() if name not in strong), default=1)
    names = [
        name
        for name, power in strong.items()
        if not power.leaks and best_of_others < FAR_LESS * power.gained
    ]
    if not names:
        return []
    what = "of the rows right" if has_classes else "of the target's variance"
    verb = "predicts" if has_classes else "explains"
    known = "is it" if len(names) == 1 else "are they"
    shares = ", ".join(
        f"column {show(n)} alone {verb} {100 * powers[n].share:.1f} % {what}" for n in names
    )
    message = (
        f"{shares}, and other columns far less; {known} known when you predict? If not, the model "
        f"will fail on new data; {advise_without(names[:3], options)}"
    )
    return [problem(LEAKING_COLUMNS, message)]


def _list(names: list[str]) -> str:
    shown = ", ".join(show(name) for name in names[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown
