"""Leaves out columns that have the same value in nearly every row.

A model can learn nothing reliable from a few rows, but may take their targets for a rule: with 2 to
16 such rows that were outliers by chance, R² of a default job fell from 0.98 to between 0.74 and
0.91, while without a column that did tell something it fell by at most 0.016.

Source: bench/results/2026-11-24-nearly-constant.md.
"""

import numpy as np
import pyarrow.compute as pc

from redkiln.tables import TableOptions
from service.datasets.inspect.report import quote_use, show
from service.datasets.inspect.tables.profile import Profile
from service.datasets.inspect.tables.roles import NEARLY_CONSTANT, Roles, Use

SAME = 0.995
"""Share of rows with the same value from which a column is nearly constant."""
LEAST_OTHERS = 20
"""Rows with another value from which their targets can say that the column matters."""
LEAST_DEVIATION = 4.0
"""Standard errors between the targets of these rows and of all rows; chance has 1."""
SAMPLED = 1000
SHOWN = 5


def ignore_nearly_constant(
    roles: Roles, profiles: dict[str, Profile], options: TableOptions
) -> None:
    """Ignore columns that are nearly constant, unless their rare values tell about the target."""
    target = _read_target(profiles[roles.target], roles)
    ignored = []
    for name in roles.of_type("numeric", "categorical"):
        found = profiles[name]
        if name in options.columns or found.derived is not None:
            continue
        is_other = _find_others(found)
        if is_other is None or _tells(is_other, target):
            continue
        roles.uses[name] = Use("ignored", NEARLY_CONSTANT)
        ignored.append(name)
    if ignored:
        roles.notes.append(_describe(ignored))


def _read_target(found: Profile, roles: Roles) -> np.ndarray:
    """Return (N,) float64 values, or codes of classes as (N,) int64; NaN or -1 without one."""
    if roles.task == "tabular-regression" and found.numbers is not None:
        return found.numbers
    return _encode(found)


def _encode(found: Profile) -> np.ndarray:
    codes = found.texts.combine_chunks().dictionary_encode().indices
    return np.asarray(pc.fill_null(codes, -1)).astype(np.int64)


def _find_others(found: Profile) -> np.ndarray | None:
    """Return (N,) bool for rows without the usual value; None if the column is not nearly constant.

    A missing value counts as a value.
    """
    step = -(-found.num_rows // SAMPLED)
    if found.numbers is None or found.are_long:
        values = _encode(found)
    else:
        values = np.nan_to_num(found.numbers, nan=np.inf)
    if _count_usual(values[::step])[1] < 0.9 * len(values[::step]):
        return None
    usual, num = _count_usual(values)
    return None if num < SAME * found.num_rows else values != usual


def _count_usual(values: np.ndarray) -> tuple[np.generic, int]:
    distinct, counts = np.unique(values, return_counts=True)
    place = int(counts.argmax())
    return distinct[place], int(counts[place])


def _tells(is_other: np.ndarray, target: np.ndarray) -> bool:
    """Return whether the rows with rare values clearly have other targets than all rows."""
    if target.dtype.kind == "f":
        is_known = np.isfinite(target)
        all_of, some = target[is_known], target[is_known & is_other]
        if len(some) < LEAST_OTHERS:
            return False
        with np.errstate(over="ignore", invalid="ignore"):  # huge targets say nothing here
            error = all_of.std() / np.sqrt(len(some))
            return bool(abs(some.mean() - all_of.mean()) > LEAST_DEVIATION * error > 0)
    some = target[is_other & (target >= 0)]
    if len(some) < LEAST_OTHERS:
        return False
    shares = np.bincount(target[target >= 0]) / max(1, int((target >= 0).sum()))
    observed = np.bincount(some, minlength=len(shares)) / len(some)
    errors = np.sqrt(np.maximum(shares * (1 - shares), 1 / len(target)) / len(some))
    return bool((abs(observed - shares) > LEAST_DEVIATION * errors).any())


def _describe(names: list[str]) -> str:
    shown = ", ".join(map(show, names[:SHOWN]))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    plural = "s" if len(names) > 1 else ""
    return (
        f"column{plural} {shown}{more} {'are' if plural else 'is'} ignored, because at least "
        f"{SAME:.1%} of the rows have the same value; to use it: "
        f"column={quote_use(names[0], 'numeric')} or column={quote_use(names[0], 'categorical')}"
    )
