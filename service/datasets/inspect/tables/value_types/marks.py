"""Notes, warnings and problems about how commas and points in numbers are read.

Shapes: N rows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from redkiln.cells.amounts import CODES
from redkiln.tables import DecimalMark, TableOptions
from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.report import problem, quote, repeat_options, show
from service.datasets.inspect.tables.commas import (
    MARKS,
    OTHER,
    SEMICOLONS,
    Commas,
    may_separate,
)
from service.datasets.inspect.tables.faults import RowLocations
from service.datasets.inspect.tables.profile import Profile
from service.datasets.inspect.tables.roles import Roles
from service.datasets.inspect.tables.value_types.units import note_units

_NAMES: dict[DecimalMark, str] = {".": "point", ",": "comma"}


def judge_marks(profiles: Mapping[str, Profile], roles: Roles, locate: RowLocations) -> None:
    """Add notes on how units and commas in numbers are read, and problems for ambiguous ones.

    Args:
        profiles: Profiles of all columns.
        roles: Roles of the columns; receives the notes and problems.
        locate: Returns the place of a row.
    """
    columns_by_reading: dict[Commas, list[str]] = {}
    units = {}
    for found in _list_numbers(profiles, roles):
        if found.written is not None and found.written.unit:
            units[found.name] = found.written.unit
        if found.commas is None:
            continue
        if found.commas.decimal is None:
            roles.problems += _refuse_comma(found, locate)
            continue
        if (mixed := _find_mixed(found)) and mixed.is_refused:
            roles.problems.append(_refuse_mixed(found, mixed, locate))
        if found.commas.why != SEMICOLONS:
            columns_by_reading.setdefault(found.commas, []).append(show(found.name))
    roles.notes += note_units(units)
    for commas, columns in columns_by_reading.items():
        shown = ", ".join(columns[:5]) + (", ..." if len(columns) > 5 else "")
        roles.notes.append(commas.describe(shown))


def warn_of_marks(
    profiles: Mapping[str, Profile], roles: Roles, options: TableOptions
) -> list[DatasetProblem]:
    """Return warnings about numbers that may be meant a thousand times larger.

    Args:
        profiles: Profiles of all columns.
        roles: Roles of the columns.
        options: The user's options, which the advice repeats.
    """
    numbers = list(_list_numbers(profiles, roles))
    has_decimal_commas = any(
        one.commas is not None and one.commas.decimal == "," for one in numbers
    )
    warnings = []
    for found in numbers:
        if mixed := _find_mixed(found):
            warnings.append(
                f"column {show(found.name)}: the {_NAMES[mixed.decimal]} in "
                f"{quote(found.example(mixed.row))} was read as a decimal mark, but it may "
                "separate thousands, as the other mark does in "
                f"{quote(found.example(mixed.other_row))}; {mixed.num:,} values are written so; "
                "if it does, write all numbers in one way"
            )
        elif found.commas is not None and found.commas.why == SEMICOLONS:
            why = f"{SEMICOLONS}, but three digits follow every comma"
            warnings += _warn_of_mark(found, ",", why, options)
        elif has_decimal_commas and found.commas is None and _has_thousand_points(found):
            why = ", but three digits follow every point, and other columns have decimal commas"
            warnings += _warn_of_mark(found, ".", why, options)
    return [problem("doubtful_thousands", message) for message in warnings]


@dataclass(frozen=True)
class _Mixed:
    """Numbers of a column with the decimal mark where others have thousands separators.

    Attributes:
        decimal: The column's decimal mark.
        row: The first row whose decimal mark may separate thousands, such as `32.000`.
        num: Number of such rows.
        other_row: The first row in which the other mark separates thousands, such as `53,300.00`.
        is_refused: Whether these are amounts of money, or a number has two thousands separators
            and none has other decimals; else the numbers may be measured to three decimals.
    """

    decimal: DecimalMark
    row: int
    num: int
    other_row: int
    is_refused: bool


def _find_mixed(found: Profile) -> _Mixed | None:
    """Find numbers that may have another thousands separator than the rest of their column.

    Other numbers with three decimals or more show that these have them, too.
    """
    decimal = None if found.commas is None else found.commas.decimal
    written = found.written
    if decimal is None or written is None or not written.separates_thousands:
        return None
    mark, other = rf"\{decimal}", rf"\{OTHER[decimal]}"
    start = "^[+-]?[1-9][0-9]{0,2}"
    is_single = _match(found, rf"{start}{mark}[0-9]{{3}}$")
    has_three = _match(found, rf"{mark}[0-9]{{3}}")
    if not is_single.any() or (has_three & ~is_single).any():
        return None
    others = np.flatnonzero(_match(found, other))
    has_groups = _match(found, rf"{start}({other}[0-9]{{3}}){{2}}").any()
    has_decimals = (_match(found, mark) & ~is_single).any()
    is_refused = written.unit in CODES or bool(has_groups and not has_decimals)
    row = int(np.flatnonzero(is_single)[0])
    return _Mixed(decimal, row, int(is_single.sum()), int(others[0]), is_refused)


def _list_numbers(profiles: Mapping[str, Profile], roles: Roles) -> Iterator[Profile]:
    """Yield the columns of numbers; classes are names, even if they look like numbers."""
    for name in roles.of_type("numeric"):
        yield profiles[name]
    if roles.task == "tabular-regression":
        yield profiles[roles.target]


def _match(found: Profile, pattern: str) -> np.ndarray:
    """Return (N,) bool; True for the numbers, without their unit, that match a pattern."""
    is_match = pc.fill_null(pc.match_substring_regex(found.plain_texts, pattern), False)
    matches: np.ndarray = is_match.to_numpy() & ~found.is_not_number
    return matches


def _first(found: Profile, mark: str) -> int | None:
    """Return the first row whose number has a mark; none if all of them mean a missing value."""
    rows = np.flatnonzero(_match(found, rf"\{mark}"))
    return int(rows[0]) if len(rows) else None


def _has_thousand_points(found: Profile) -> bool:
    """Return whether the file has points in the numbers that may all separate thousands."""
    return pa.types.is_string(found.raw.type) and may_separate(found.plain_texts)


def _warn_of_mark(found: Profile, mark: DecimalMark, why: str, options: TableOptions) -> list[str]:
    row = _first(found, mark)
    if row is None:
        return []
    assert found.numbers is not None
    told = repeat_options(options.model_copy(update={"decimal": OTHER[mark]}))
    message = (
        f"column {show(found.name)}: {quote(found.example(row))} was read as "
        f"{found.numbers[row]:.15g}{why}; if the {MARKS[mark]} separate thousands, write the "
        f"numbers without them or push the table again with {told}"
    )
    return [message]


def _refuse_comma(found: Profile, locate: RowLocations) -> list[DatasetProblem]:
    row = _first(found, ",")
    if row is None:
        return []
    message = (
        f"column {quote(found.name)}: the comma in {found.example(row)!r} may be a thousands "
        "separator or a decimal mark, and no other value shows which; set decimal=. if it "
        "separates thousands, decimal=, if it is the decimal mark"
    )
    return [problem("ambiguous_numbers", message, locate(row))]


def _refuse_mixed(found: Profile, mixed: _Mixed, locate: RowLocations) -> DatasetProblem:
    name, mark = _NAMES[mixed.decimal], mixed.decimal
    message = (
        f"column {quote(found.name)}: the {name} in {quote(found.example(mixed.row))} may separate "
        f"thousands, as the {MARKS[OTHER[mark]]} of other values do, such as "
        f"{quote(found.example(mixed.other_row))} ({locate(mixed.other_row)}); {mixed.num:,} "
        "values are written so; write all numbers in one way, or set "
        f"decimal={mark} if the {name} is the decimal mark"
    )
    return problem("ambiguous_numbers", message, locate(mixed.row))
