"""Decides whether tables are a valid data set, and writes the index of a valid one."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from redkiln.tables import Column, TableIndex, TableOptions
from redkiln.views.dataset import ColumnView, DatasetProblem
from service.datasets.inspect.layout import SPLITS
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.report import (
    MAX_LISTED,
    Refused,
    Report,
    problem,
    refuse,
    show,
)
from service.datasets.inspect.tables.commas import Commas
from service.datasets.inspect.tables.faults import RowFaults, RowLocations
from service.datasets.inspect.tables.index_file import (
    Split,
    build_categorical,
    build_numeric,
    build_text,
    measure,
    split_rows,
    write_index,
)
from service.datasets.inspect.tables.profile import Profile, profile_all
from service.datasets.inspect.tables.raw import RawTable
from service.datasets.inspect.tables.roles import (
    Roles,
    Use,
    choose_roles,
    find_split_column,
    find_unknown,
)
from service.datasets.inspect.tables.stack import stack
from service.datasets.inspect.tables.targets import Targets, read_targets
from service.datasets.inspect.tables.values import numbers_among

SHOWN_CATEGORIES = 20
_BUILDERS = {"numeric": build_numeric, "categorical": build_categorical, "text": build_text}


@dataclass(frozen=True)
class _Judged:
    """The result of examining all columns, before the rows are split."""

    profiles: dict[str, Profile]
    roles: Roles
    targets: Targets
    faults: RowFaults
    is_test: np.ndarray | None
    missing_numbers: list[float]


def judge_tables(
    train: Sequence[RawTable],
    test: Sequence[RawTable],
    options: TableOptions,
    *,
    index_path: Path,
    seed: int,
    num_threads: int,
    limits: Limits,
) -> Report:
    """Judge tables and return the report; write the index if the set is valid.

    Args:
        train: Tables with the training rows; without `test`, with all rows.
        test: Tables with the test rows.
        options: The user's options.
        index_path: Path of the index to write.
        seed: Random seed of the row order.
        num_threads: Number of columns to examine in parallel.
        limits: Limits of the inspection.

    Raises:
        Refused: The tables cannot be used, nor inspected completely.
    """
    tables = [*train, *test]
    names, columns = stack(tables)
    places = RowLocations(tables)
    if unknown := find_unknown(options, names):
        raise Refused(unknown)
    num_rows = len(columns[0])
    faults = RowFaults(places, np.zeros(num_rows, bool))
    for table in tables:
        faults.add_unread(table)
    if num_rows < 2:
        rows = "no rows" if not num_rows else "only one row"
        message = f"the table has {rows} of data; training needs at least two"
        raise Refused([problem("no_rows", message), *faults.listed])
    if len(names) < 2:
        message = "the table has only one column; it needs a target and at least one more column"
        raise refuse("one_column", message)
    numeric = {name for name, use in options.columns.items() if use == "numeric"}
    if options.task == "tabular-regression" and options.target is not None:
        numeric.add(options.target)
    profiles = profile_all(
        names,
        columns,
        missing=options.missing_words,
        numeric=numeric,
        decimal=options.decimal,
        delimiters={table.delimiter for table in tables},
        num_threads=num_threads,
    )
    split = None if test else find_split_column(profiles, options, places=places)
    roles = choose_roles(profiles, options, split=split, places=places, limits=limits)
    is_test = _find_test_rows(train, num_rows, profiles, split, has_test=bool(test))
    notes = [note for table in tables for note in table.notes]
    if split is not None:
        notes.append(f"column {show(split)} assigns the rows to training and testing")
    roles.notes[:0] = notes
    _judge_commas(profiles, roles, places)
    _find_bad_rows(profiles, roles, faults)
    targets = read_targets(
        profiles,
        roles,
        places,
        classes=options.classes,
        is_skipped=faults.is_bad,
        is_test=is_test,
        limits=limits,
    )
    missing_numbers = numbers_among(options.missing_words)
    judged = _Judged(profiles, roles, targets, faults, is_test, missing_numbers)
    return _decide(judged, index_path=index_path, seed=seed, limits=limits)


def _find_test_rows(
    train: Sequence[RawTable],
    num_rows: int,
    profiles: dict[str, Profile],
    split: str | None,
    *,
    has_test: bool,
) -> np.ndarray | None:
    """Return (N,) bool for the test rows; None if there is no test split."""
    if has_test:
        return np.arange(num_rows) >= sum(table.num_rows for table in train)
    if split is None:
        return None
    words = [word for word, name in SPLITS.items() if name == "test"]
    is_test = pc.is_in(pc.utf8_lower(profiles[split].texts), value_set=pa.array(words)).to_numpy()
    return is_test if is_test.any() else None


def _judge_commas(profiles: dict[str, Profile], roles: Roles, places: RowLocations) -> None:
    """Add notes on how commas in numbers are read, and problems for ambiguous ones."""
    columns_by_reading: dict[Commas, list[str]] = {}
    names = roles.of_type("numeric")
    if roles.task == "tabular-regression":  # classes are names, even if they look like numbers
        names.append(roles.target)
    for name in names:
        found = profiles[name]
        if found.commas is not None and found.commas.decimal is not None:
            columns_by_reading.setdefault(found.commas, []).append(show(name))
        elif found.commas is not None:
            has_comma = pc.fill_null(pc.match_substring(found.texts, ","), False).to_numpy()
            rows = np.flatnonzero(has_comma & ~found.is_not_number)
            if not len(rows):  # all values with a comma mean a missing value
                continue
            row = int(rows[0])
            message = (
                f"column {show(name)!r}: the comma in {found.example(row)!r} may be a thousands "
                "separator or a decimal mark, and no other value decides it; set decimal=. if it "
                "separates thousands, decimal=, if it is the decimal mark"
            )
            roles.problems.append(problem("ambiguous_numbers", message, places(row)))
    for commas, columns in columns_by_reading.items():
        shown = ", ".join(columns[:5]) + (", ..." if len(columns) > 5 else "")
        roles.notes.append(commas.describe(shown))


def _find_bad_rows(profiles: dict[str, Profile], roles: Roles, faults: RowFaults) -> None:
    for name in roles.of_type("numeric"):
        found = profiles[name]
        if found.is_not_number.any():
            faults.add(found.is_not_number, "not_a_number", found.explain_missing)
    for name in roles.of_type("text"):
        texts = pc.fill_null(pc.cast(profiles[name].raw, pa.string()), "")
        is_empty = pc.equal(pc.utf8_trim_whitespace(texts), "").to_numpy()
        if is_empty.any():
            message = f"column {show(name)!r}: the text is empty"
            faults.add(is_empty, "empty_text", message)


def _decide(judged: _Judged, *, index_path: Path, seed: int, limits: Limits) -> Report:
    roles, targets, faults = judged.roles, judged.targets, judged.faults
    report = Report(
        task=roles.task,
        classes=[show(name) for name in targets.classes],
        target=show(roles.target),
        notes=list(roles.notes),
        num_skipped=faults.num_bad,
        skipped=faults.listed[:MAX_LISTED],
        errors=[*roles.problems, *targets.problems, *faults.find_errors(limits)],
        columns=[_view(judged.profiles[name], use) for name, use in roles.uses.items()],
    )
    report.errors = report.errors[: MAX_LISTED + 10]
    if report.errors:
        return report
    split = split_rows(targets.labels, is_used=~faults.is_bad, is_test=judged.is_test, seed=seed)
    if problems := _find_empty_split(split, judged.is_test):
        report.errors = problems
        return report
    index = _write(judged, split, report, index_path=index_path, seed=seed)
    report.notes = index.notes
    return report


def _find_empty_split(split: Split, is_test: np.ndarray | None) -> list[DatasetProblem]:
    if split.num_train < 2:
        message = f"only {split.num_train} rows are left for training; at least two are needed"
        return [problem("no_rows", message)]
    if split.num_train < len(split.order):
        return []
    if is_test is not None:
        return [
            problem("no_rows", "the test split has no usable rows; add some or remove the split")
        ]
    message = (
        "no row can be held out for testing because each class has only one; add rows, or add a "
        "test split"
    )
    return [problem("no_test_split", message)]


def _write(
    judged: _Judged, split: Split, report: Report, *, index_path: Path, seed: int
) -> TableIndex:
    roles, targets = judged.roles, judged.targets
    columns: list[Column] = []
    features: list[pa.Array] = []
    for name in roles.of_type(*_BUILDERS):
        column, values = _BUILDERS[roles.uses[name].type](judged.profiles[name], split)
        columns.append(column)
        features.append(values)
    train = split.train
    index = TableIndex(
        task=roles.task,
        columns=columns,
        target=roles.target,
        classes=targets.classes,
        num_train=split.num_train,
        num_test=len(split.order) - split.num_train,
        seed=seed,
        held_out_test=split.is_held_out,
        missing_numbers=judged.missing_numbers,
        notes=[*roles.notes, *_notes(targets, split)],
    )
    if targets.numbers is not None:
        index.target_mean, index.target_std = measure(targets.numbers[train])
        values = pa.array(targets.numbers[split.order], pa.float64())
    else:
        values = pa.array(targets.labels[split.order], pa.int32())
    write_index(index_path, index, features, values, split.ranks)
    report.counts = _count(targets, split)
    report.columns = _describe(judged, columns, report.columns, train=train)
    return index


def _count(targets: Targets, split: Split) -> dict[str, dict[str, int]]:
    parts = {"train": split.train, "test": split.order[split.num_train :]}
    if targets.numbers is not None:
        return {name: {"rows": len(rows)} for name, rows in parts.items()}
    counts = {}
    for name, rows in parts.items():
        of_classes = np.bincount(targets.labels[rows], minlength=len(targets.classes))
        counts[name] = {
            show(label): int(count)
            for label, count in zip(targets.classes, of_classes, strict=True)
            if count
        }
    return counts


def _view(found: Profile, use: Use) -> ColumnView:
    return ColumnView(
        name=show(found.name),
        type=use.type,
        note=use.note,
        num_missing=int(found.is_missing.sum()),
    )


def _describe(
    judged: _Judged, columns: Sequence[Column], views: Sequence[ColumnView], *, train: np.ndarray
) -> list[ColumnView]:
    """Return the views of all columns, with the statistics of the used ones."""
    by_name = {show(column.name): column for column in columns}
    described = []
    for view in views:
        column = by_name.get(view.name)
        facts: dict[str, object] = {}
        if view.type == "target":
            facts = _describe_target(judged.targets, train)
        elif column is not None and column.type == "numeric":
            facts = {
                "minimum": column.minimum,
                "maximum": column.maximum,
                "mean": column.mean,
                "num_missing": column.num_missing,
            }
        elif column is not None and column.type == "categorical":
            facts = {
                "num_categories": len(column.categories),
                "categories": [show(name) for name in column.categories[:SHOWN_CATEGORIES]],
                "num_missing": column.num_missing,
            }
        elif column is not None:
            facts = {"num_missing": 0}
        described.append(view.model_copy(update=facts))
    return described


def _describe_target(targets: Targets, train: np.ndarray) -> dict[str, object]:
    if targets.numbers is None:
        return {
            "num_categories": len(targets.classes),
            "categories": [show(name) for name in targets.classes[:SHOWN_CATEGORIES]],
            "num_missing": 0,
        }
    values = targets.numbers[train]
    return {
        "minimum": float(values.min()),
        "maximum": float(values.max()),
        "mean": measure(values)[0],
        "num_missing": 0,
    }


def _notes(targets: Targets, split: Split) -> list[str]:
    notes = []
    test = split.order[split.num_train :]
    if split.is_held_out:
        notes.append(
            f"there is no test split: {len(test)} of {len(split.order)} rows were held out for "
            "testing, the same ones for every job"
        )
    if targets.numbers is None:
        tested = Counter(targets.labels[test].tolist())
        untested = [name for label, name in enumerate(targets.classes) if not tested[label]]
        if untested:
            shown = ", ".join(show(name) for name in untested[:10])
            notes.append(f"{len(untested)} classes have no test row: {shown}")
    return notes
