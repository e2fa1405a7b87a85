"""Reads the target column: classes, or numbers without missing values."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from redkiln.cells.label_file import ONE_CLASS
from redkiln.nearest import find_nearest
from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.layout import Split
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.near_classes import find_near_classes
from service.datasets.inspect.report import problem, quote, show
from service.datasets.inspect.tables.faults import RowLocations, list_bad_targets
from service.datasets.inspect.tables.profile import Profile
from service.datasets.inspect.tables.roles import Roles
from service.datasets.inspect.tables.value_types.labels import (
    LabelSets,
    are_surely_sets,
    check_separator,
    find_separator,
    say_unsplit,
    split_labels,
)
from service.datasets.inspect.tables.value_types.mixed import MAX_ROWS_FOR_WORDS, MAX_WORDS_FOR_NONE
from service.datasets.inspect.tables.value_types.names import MAX_FEW

NO_LABEL = "; give rows without any of the labels another one, such as `other`"
_MAX_UNTRAINED = 50
"""Maximum classes without training rows that are reported one by one."""


@dataclass
class Targets:
    """The target of each row.

    Attributes:
        classes: Names by label, in the user's order, else sorted (numbers by value). Empty for
            regression.
        labels: (N,) int64 class of each row, -1 for none; all 0 for regression. With several labels
            a row, its rarest one.
        sets: All labels of each row, if a row can have several.
        warnings: Other readings of the table, and the option for each.
        numbers: (N,) float64 for regression, else None.
    """

    classes: list[str]
    labels: np.ndarray
    numbers: np.ndarray | None = None
    problems: list[DatasetProblem] = field(default_factory=list)
    sets: LabelSets | None = None
    warnings: list[DatasetProblem] = field(default_factory=list)


def read_targets(
    profiles: dict[str, Profile],
    roles: Roles,
    locate: RowLocations,
    *,
    classes: list[str] | None,
    is_skipped: np.ndarray,
    num_skipped: int,
    held: Mapping[Split, np.ndarray],
    limits: Limits,
    separator: str | None = None,
) -> Targets:
    """Read the targets of all rows, and find problems with them.

    Args:
        profiles: Profiles of all columns.
        roles: Roles of the columns.
        locate: Returns the place of a row, such as `data.csv:7`.
        classes: Names by label, if the user listed them.
        is_skipped: (N,) bool; rows that are skipped.
        num_skipped: Number of rows that are skipped, including those that could not be read.
        held: (N,) bool for the rows of each given split other than the training split.
        limits: Limits of the inspection.
        separator: Separator of the labels in a cell, if a row can have several; `none` if each
            cell is one class, even if it looks like a list.
    """
    found = profiles[roles.target]
    doubt = _say_guess(roles)
    otherwise = f"{doubt}; otherwise " if doubt else ""
    is_literal = separator == ONE_CLASS
    separator = None if is_literal else separator
    if roles.task == "tabular-regression":
        return _read_numbers(
            found, locate, is_skipped=is_skipped, num_skipped=num_skipped, doubt=doubt
        )
    is_missing = found.is_missing & ~is_skipped
    if separator is None:
        targets = _read_classes(found, classes, is_skipped=is_skipped)
    else:
        targets = _read_sets(
            found, classes, locate, separator=separator, is_used=~is_skipped & ~found.is_missing
        )
    targets.problems += list_bad_targets(
        is_missing,
        locate,
        target=roles.target,
        what="no value",
        describe=found.explain_missing,
        remedy=otherwise
        + _find_remedy(found, is_missing, num_skipped=num_skipped)
        + (NO_LABEL if separator else ""),
    )
    is_used = ~is_skipped & ~found.is_missing
    unlisted = []
    if classes is not None and separator is None:
        unlisted = _find_unlisted(found, targets, locate, is_used=is_used, otherwise=otherwise)
    if unlisted:
        targets.problems += unlisted
        return targets
    num_rows = int(is_used.sum())
    count = len(targets.classes)
    if not is_missing.all() and count < 2 and (num_rows or not is_skipped.any()):
        only = f" ({quote(targets.classes[0])})" if targets.classes else ""
        left = f" in the {num_rows:,} rows that can be used" if is_skipped.any() else ""
        message = (
            f"target {quote(roles.target)} has only one class{only}{left}; a classifier needs at "
            "least two"
        )
        targets.problems.append(problem("one_class", "; ".join(filter(None, [message, doubt]))))
    has_said = is_literal or separator is not None or classes is not None
    looks_like = None if has_said else find_separator(targets.classes)
    if count > limits.max_classes or (count > MAX_FEW and count > num_rows / 2):
        targets.problems.append(
            _too_many(found, profiles, roles, count, num_rows, separator=looks_like)
        )
        targets.classes = []
        return targets
    if looks_like:
        message = _describe_separator(found.name, targets, looks_like)
        is_sure = are_surely_sets(targets.classes, looks_like)
        listed = targets.problems if is_sure else targets.warnings
        listed.append(problem("labels_not_split", message))
    targets.problems += _find_untrained(targets, locate, held=held, is_used=~is_skipped)
    return targets


def _say_guess(roles: Roles) -> str:
    """Return why the target was taken, and how to name another; empty if the user named it."""
    if not roles.guess:
        return ""
    return (
        f"this column was taken as the target because {roles.guess}; if it is another column: "
        "target=NAME"
    )


def _read_numbers(
    found: Profile,
    locate: RowLocations,
    *,
    is_skipped: np.ndarray,
    num_skipped: int,
    doubt: str,
) -> Targets:
    labels = np.zeros(found.num_rows, np.int64)
    otherwise = f"{doubt}; otherwise " if doubt else ""
    name = show(found.name)
    if found.numbers is None:
        row = int(np.flatnonzero(~found.is_missing)[0]) if found.num_present else 0
        message = (
            f"target {name!r} has values that are not numbers, such as {found.example(row)!r}; "
            f"{otherwise}set task=tabular-classification or choose another target"
        )
        return Targets([], labels, labels * 0.0, [problem("bad_target", message, locate(row))])
    is_bad = ~np.isfinite(found.numbers) & ~is_skipped
    problems = list_bad_targets(
        is_bad,
        locate,
        target=found.name,
        what="no finite number",
        describe=found.explain_missing,
        remedy=otherwise + _find_remedy(found, is_bad, num_skipped=num_skipped),
    )
    usable = found.numbers[~is_skipped & ~is_bad]
    if not problems and len(usable) and usable.min() == usable.max():
        message = f"target {name!r} is {usable[0]:g} in every row, so there is nothing to learn"
        problems = [problem("constant_target", "; ".join(filter(None, [message, doubt])))]
    return Targets([], labels, found.numbers, problems)


def _find_remedy(found: Profile, is_bad: np.ndarray, *, num_skipped: int) -> str:
    """Return what to do about bad targets, whose words may have been meant as values.

    Args:
        found: The target.
        is_bad: (N,) bool; rows with a bad target that are not skipped yet.
        num_skipped: Number of rows that are already skipped, which `skip_bad` counts too.
    """
    rows = np.flatnonzero(is_bad & found.is_missing)[:MAX_ROWS_FOR_WORDS]
    words = list({word: None for row in rows if (word := found.missing_word(int(row)))})
    num_bad = num_skipped + int(is_bad.sum())
    others = "1 other unusable row" if num_skipped == 1 else f"{num_skipped} other unusable rows"
    skipped = f"them and {others}" if num_skipped else "them"
    remedy = f"add the values, remove these rows, or skip {skipped} (skip_bad={num_bad})"
    if not words:
        return remedy
    shown = ", ".join(map(repr, words[:MAX_WORDS_FOR_NONE]))
    return (
        f"{remedy}; if {shown} is a value, list only the words that mean a missing value "
        "(missing=WORD, or missing='' for empty fields only)"
    )


def _read_classes(found: Profile, listed: list[str] | None, *, is_skipped: np.ndarray) -> Targets:
    texts = _class_names(found)
    used = texts.filter(pa.array(~is_skipped)) if is_skipped.any() else texts
    names = used.unique().drop_null().to_pylist()
    classes = listed or (sorted(names, key=float) if _are_plain(found) else sorted(names))
    codes = pc.index_in(texts, value_set=pa.array(classes, pa.string()), skip_nulls=True)
    return Targets(classes, pc.fill_null(codes, -1).to_numpy().astype(np.int64))


def _read_sets(
    found: Profile,
    listed: list[str] | None,
    locate: RowLocations,
    *,
    separator: str,
    is_used: np.ndarray,
) -> Targets:
    """Read cells with several labels; a row without any is a problem."""
    texts = pc.if_else(pa.array(is_used), found.texts, pa.scalar(None, pa.string()))
    sets, is_unlisted = split_labels(texts, separator=separator, listed=listed)
    labels = sets.find_rarest(np.flatnonzero(is_used))
    problems = list_bad_targets(
        is_used & (sets.sizes == 0) & ~is_unlisted,
        locate,
        target=found.name,
        what="no label",
        describe=lambda row: (
            f"column {quote(found.name)}: {found.example(row)!r} contains no label"
        ),
        remedy="add labels or remove these rows" + NO_LABEL,
    )
    problems += list_bad_targets(
        is_unlisted,
        locate,
        target=found.name,
        what="a label that is not in the list of classes",
        describe=lambda row: (
            f"column {quote(found.name)}: {found.example(row)!r} has a label that is not listed"
        ),
        remedy="repair these rows, or add the label to the list",
    )
    problems += check_separator(sets, target=found.name, separator=separator)
    return Targets(sets.names, labels, problems=problems, sets=sets)


def _find_unlisted(
    found: Profile, targets: Targets, locate: RowLocations, *, is_used: np.ndarray, otherwise: str
) -> list[DatasetProblem]:
    """Report rows whose class is not listed, and listed classes that no row has."""
    problems = list_bad_targets(
        is_used & (targets.labels < 0),
        locate,
        target=found.name,
        what="a class that is not in the list of classes",
        describe=lambda row: (
            f"column {quote(found.name)}: {found.example(row)!r} is not one of the listed classes"
            f"{find_nearest(found.example(row), targets.classes)}"
        ),
        remedy=otherwise + "repair these rows, or add the class to the list",
    )
    present = set(np.unique(targets.labels[is_used]).tolist())
    absent = [name for label, name in enumerate(targets.classes) if label not in present]
    if absent:
        shown = ", ".join(map(show, absent[:10]))
        message = f"class {shown} was listed but no row has it; remove it, or add rows with it"
        problems.append(problem("unused_class", message))
    return problems


def _class_names(found: Profile) -> pa.ChunkedArray:
    """Return (N,) class names; integers are written in one way, however the file writes them."""
    return pc.cast(found.integers, pa.string()) if _are_plain(found) else found.texts


def _are_plain(found: Profile) -> bool:
    """Return whether the classes are plain integers; `1,000` and `5%` are names."""
    return found.are_integers and found.written is None


def _describe_separator(name: str, targets: Targets, separator: str) -> str:
    return say_unsplit(
        f"each value of the target {show(name)}", "the table", targets.classes, separator
    )


def _too_many(
    found: Profile,
    profiles: dict[str, Profile],
    roles: Roles,
    count: int,
    num_rows: int,
    *,
    separator: str | None,
) -> DatasetProblem:
    remedies = []
    if separator:
        quoted = shlex.quote(separator)
        remedies.append(f"labels_separator={quoted}, if its values are sets of labels")
    if found.share_of_numbers == 1 and roles.task != "text-classification":
        remedies.append("task=tabular-regression, because the values are numbers")
    few = [
        name
        for name, other in profiles.items()
        if name != found.name and 2 <= other.num_distinct <= MAX_FEW
    ]
    if few or not remedies:
        named = " (" + ", ".join(show(name) for name in few[:5]) + ")" if few else ""
        remedies.append(f"another target{named}{' with target=NAME' if roles.guess else ''}")
    because = f"it was taken because {roles.guess}; " if roles.guess else ""
    message = (
        f"target {quote(found.name)} has {count} different values in {num_rows} rows, which is "
        f"too many for classes; {because}choose {' or '.join(remedies)}"
    )
    return problem("too_many_classes", message)


def _find_untrained(
    targets: Targets, locate: RowLocations, *, held: Mapping[Split, np.ndarray], is_used: np.ndarray
) -> list[DatasetProblem]:
    """Report classes of the other splits that have no training row."""
    is_held = sum(held.values(), np.zeros(len(is_used), bool))
    trained = list(_find_first_rows(targets, np.flatnonzero(~is_held & is_used)))
    rows = _find_first_rows(targets, np.flatnonzero(is_used))
    unknown = sorted(set(rows) - set(trained))[:_MAX_UNTRAINED]
    names = [targets.classes[label] for label in unknown]
    near = find_near_classes(names, [targets.classes[label] for label in trained])
    problems = []
    for label, name in zip(unknown, names, strict=True):
        hint = f"did you mean {quote(near[name])}?" if name in near else "add training rows with it"
        row = rows[label]
        split = next((split for split, is_in in held.items() if is_in[row]), "test")
        message = f"the {split} split has class {quote(name)}, but no training row has it; {hint}"
        problems.append(problem(f"unknown_{split}_class", message, locate(row)))
    return problems


def _find_first_rows(targets: Targets, used: np.ndarray) -> dict[int, int]:
    """Return the first of the used rows that has each class."""
    if targets.sets is None:
        used = used[targets.labels[used] >= 0]
        labels = targets.labels[used]
    else:
        labels = targets.sets.take(used).flatten().to_numpy()
        used = np.repeat(used, targets.sets.sizes[used])
    known, first = np.unique(labels, return_index=True)
    return dict(zip(known.tolist(), used[first].tolist(), strict=True))
