"""Decides whether tables are a valid data set, and writes the index of a valid one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from redkiln.tables import Column, TableIndex, TableOptions
from redkiln.views.dataset import ColumnView, DatasetProblem
from service.datasets.inspect.layout import HELD_SPLITS, SPLITS
from service.datasets.inspect.layout import Split as Part
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.quality.nearly_constant import ignore_nearly_constant
from service.datasets.inspect.quality.tables import check_table
from service.datasets.inspect.report import (
    MAX_LISTED,
    InspectionReport,
    Refused,
    note_skipped,
    problem,
    quote,
    refuse,
    show,
)
from service.datasets.inspect.tables.contents import (
    add_statistics,
    count_labels,
    count_samples,
    describe_split,
    find_gaps,
    number_copies,
    number_unused,
    view_column,
)
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
    choose_roles,
    find_split_column,
    require_features,
)
from service.datasets.inspect.tables.row_numbers import keep_informative_numbers
from service.datasets.inspect.tables.stack import stack
from service.datasets.inspect.tables.targets import Targets, read_targets
from service.datasets.inspect.tables.unknown import find_unknown
from service.datasets.inspect.tables.value_types.dates import derive_dates
from service.datasets.inspect.tables.value_types.marks import judge_marks, warn_of_marks
from service.datasets.inspect.tables.value_types.missing import (
    note_missing_categories,
    warn_of_codes,
)
from service.datasets.inspect.tables.value_types.prose import derive_words
from service.datasets.inspect.tables.values import numbers_among

_BUILDERS = {"numeric": build_numeric, "categorical": build_categorical, "text": build_text}


@dataclass(frozen=True)
class _Judged:
    """The result of examining all columns, before the rows are split.

    Attributes:
        held: (N,) bool for the rows of each given split other than the training split.
    """

    profiles: dict[str, Profile]
    roles: Roles
    targets: Targets
    faults: RowFaults
    held: dict[Part, np.ndarray]
    options: TableOptions


def judge_tables(
    tables: Mapping[Part, Sequence[RawTable]],
    options: TableOptions,
    *,
    index_path: Path,
    seed: int,
    num_threads: int,
    limits: Limits,
) -> InspectionReport:
    """Judge tables and return the report; write the index if the set is valid.

    Args:
        tables: Tables with the rows of each split; without `test`, `train` may have its rows, too.
        options: The user's options.
        index_path: Path of the index to write.
        seed: Random seed of the row order.
        num_threads: Number of columns to examine in parallel.
        limits: Limits of the inspection.

    Raises:
        Refused: The tables cannot be used, nor inspected completely.
    """
    files = [table for split in get_args(Part) for table in tables.get(split, ())]
    names, columns = stack(files)
    if unknown := find_unknown(options, names):
        raise Refused(unknown)
    faults = _list_unread(files, num_rows=len(columns[0]))
    _refuse_too_small(names, faults)
    profiles = profile_all(
        names,
        columns,
        missing=options.missing_words,
        numeric=_names_of_numbers(options),
        decimal=options.decimal,
        delimiters={table.delimiter for table in files},
        num_threads=num_threads,
    )
    judged = _judge(profiles, options, faults, tables=tables, limits=limits)
    return _decide(judged, index_path=index_path, seed=seed, limits=limits)


def _list_unread(tables: list[RawTable], *, num_rows: int) -> RowFaults:
    faults = RowFaults(RowLocations(tables), np.zeros(num_rows, bool))
    for table in tables:
        faults.add_unread(table)
    return faults


def _refuse_too_small(names: Sequence[str], faults: RowFaults) -> None:
    num_rows = len(faults.is_bad)
    if num_rows < 2:
        rows = "no rows" if not num_rows else "only one row"
        message = f"the table has {rows} of data; training needs at least two"
        raise Refused([problem("no_rows", message), *faults.listed])
    if len(names) < 2:
        message = "the table has only one column; it needs a target and at least one more column"
        raise refuse("one_column", message)


def _names_of_numbers(options: TableOptions) -> set[str]:
    """Return the columns that hold numbers according to the options."""
    numeric = {name for name, use in options.columns.items() if use == "numeric"}
    if options.task == "tabular-regression" and options.target is not None:
        numeric.add(options.target)
    return numeric


def _judge(
    profiles: dict[str, Profile],
    options: TableOptions,
    faults: RowFaults,
    *,
    tables: Mapping[Part, Sequence[RawTable]],
    limits: Limits,
) -> _Judged:
    """Choose the columns' roles, then find the test rows, the bad rows and the targets."""
    locate = faults.locate
    has_parts = any(tables.get(part) for part in HELD_SPLITS)
    split = None if has_parts else find_split_column(profiles, options, locate=locate)
    roles = choose_roles(profiles, options, split=split, locate=locate, limits=limits)
    held = _find_held_rows(tables) if split is None else _find_marked_rows(profiles[split])
    derive_dates(profiles, roles, options)
    keep_informative_numbers(roles, profiles)
    ignore_nearly_constant(roles, profiles, options)
    require_features(roles, profiles)
    roles.notes[:0] = _describe_reading(tables, split)
    judge_marks(profiles, roles, locate)
    _find_bad_rows(profiles, roles, faults)
    if limits.max_skipped:
        _skip_without_target(profiles[roles.target], roles, faults)
    if options.missing is None:
        note_missing_categories(profiles, roles, is_used=~faults.is_bad)
    roles.notes += note_skipped(faults.listed, "rows", num=faults.num_bad)
    targets = read_targets(
        profiles,
        roles,
        locate,
        classes=options.classes,
        is_skipped=faults.is_bad,
        num_skipped=faults.num_bad,
        held=held,
        limits=limits,
        separator=options.labels_separator,
    )
    return _Judged(profiles, roles, targets, faults, held, options)


def _describe_reading(tables: Mapping[Part, Sequence[RawTable]], split: str | None) -> list[str]:
    notes = [note for some in tables.values() for table in some for note in table.notes]
    if split is not None:
        notes.append(f"column {show(split)} assigns the rows to splits")
    return notes


def _find_held_rows(tables: Mapping[Part, Sequence[RawTable]]) -> dict[Part, np.ndarray]:
    """Return (N,) bool for the rows of each given split other than the training split."""
    given: list[Part] = [part for part in get_args(Part) if tables.get(part)]
    sizes = [sum(table.num_rows for table in tables[part]) for part in given]
    parts = np.repeat(np.array(given), sizes)
    return {part: parts == part for part in given if part in HELD_SPLITS}


def _find_marked_rows(split: Profile) -> dict[Part, np.ndarray]:
    """Return the same from a column with the names of the splits."""
    held: dict[Part, np.ndarray] = {}
    for part in HELD_SPLITS:
        words = pa.array([word for word, name in SPLITS.items() if name == part])
        rows = pc.is_in(pc.utf8_lower(split.texts), value_set=words).to_numpy()
        if rows.any():
            held[part] = rows
    return held


def _find_bad_rows(profiles: dict[str, Profile], roles: Roles, faults: RowFaults) -> None:
    for name in roles.of_type("numeric"):
        found = profiles[name]
        if found.is_not_number.any():
            faults.add(found.is_not_number, "not_a_number", found.explain_missing)
    for name in roles.of_type("text") if roles.task == "text-classification" else ():
        texts = pc.fill_null(pc.cast(profiles[name].raw, pa.string()), "")
        is_empty = pc.equal(pc.utf8_trim_whitespace(texts), "").to_numpy()
        if is_empty.any():
            message = f"column {quote(name)}: the text is empty"
            faults.add(is_empty, "empty_text", message)


def _skip_without_target(found: Profile, roles: Roles, faults: RowFaults) -> None:
    is_bad = found.is_missing
    if roles.task == "tabular-regression":
        is_bad = is_bad | found.is_not_number
    if is_bad.any():
        faults.add(is_bad, "bad_target", found.explain_missing)


def _list_bad_rows(judged: _Judged, limits: Limits) -> list[DatasetProblem]:
    """Return the bad rows if there are too many, or if rows without a target are refused too."""
    errors = judged.faults.find_errors(limits)
    has_bad_targets = any(found.code == "bad_target" for found in judged.targets.problems)
    return errors or (judged.faults.listed if has_bad_targets else [])


def _decide(judged: _Judged, *, index_path: Path, seed: int, limits: Limits) -> InspectionReport:
    roles, targets, faults = judged.roles, judged.targets, judged.faults
    is_used = ~faults.is_bad

    def view_columns() -> list[ColumnView]:
        uses = roles.uses.items()
        return [view_column(judged.profiles[n], use, is_used=is_used) for n, use in uses]

    report = InspectionReport(
        task=roles.task,
        classes=[show(name) for name in targets.classes],
        target=show(roles.target),
        notes=list(roles.notes),
        num_skipped=faults.num_bad,
        skipped=faults.listed[:MAX_LISTED],
        errors=[*roles.problems, *targets.problems, *_list_bad_rows(judged, limits)],
        columns=view_columns(),
    )
    report.errors = report.errors[: MAX_LISTED + 10]
    if report.errors:
        return report
    copies = number_copies(judged.profiles, roles, is_used=is_used)
    split = split_rows(targets.labels, is_used=is_used, held=judged.held, copies=copies, seed=seed)
    if problems := _find_empty_split(split, judged.held):
        report.errors = problems
        return report
    if roles.task != "text-classification":
        train = split.train[: split.num_train - split.num_validation]
        derive_words(judged.profiles, roles, targets, train=train)
        require_features(roles, judged.profiles)
        report.errors = list(roles.problems)
        report.columns = view_columns()
        if report.errors:
            return report
    index = _write(judged, split, report, index_path=index_path, seed=seed)
    report.notes = index.notes
    report.warnings = [
        *targets.warnings,
        *warn_of_marks(judged.profiles, roles, judged.options),
        *warn_of_codes(judged.profiles, roles, judged.options, is_used=is_used),
        *check_table(
            index_path,
            report,
            judged.options,
            locate=lambda row: faults.locate(int(split.order[row])),
            number_unused=lambda: number_unused(judged.profiles, roles, split.order),
            find_gaps=lambda: find_gaps(judged.profiles, index.columns, split.order),
        ),
    ]
    return report


def _find_empty_split(split: Split, held: Mapping[Part, np.ndarray]) -> list[DatasetProblem]:
    left = split.num_train - split.num_validation
    if left < 2:
        message = f"only {left} rows are left for training; at least two are needed"
        return [problem("no_rows", message)]
    if split.num_train < len(split.order):
        return []
    if "test" in held:
        return [
            problem("no_rows", "the test split has no usable rows; add some or remove the split")
        ]
    message = (
        "no row can be held out for testing because each class has only one; add rows, or add a "
        "test split"
    )
    return [problem("no_test_split", message)]


def _write(
    judged: _Judged, split: Split, report: InspectionReport, *, index_path: Path, seed: int
) -> TableIndex:
    roles, targets, options = judged.roles, judged.targets, judged.options
    columns: list[Column] = []
    features: list[pa.Array] = []
    for name in roles.of_type(*_BUILDERS):
        column, values = _BUILDERS[roles.uses[name].type](judged.profiles[name], split)
        columns.append(column)
        features.append(values)
    train = split.train
    index = TableIndex(
        format=1 if targets.sets is None else 2,
        task=roles.task,
        columns=columns,
        target=roles.target,
        ignored=[name for name, use in roles.uses.items() if use.type not in _BUILDERS],
        classes=targets.classes,
        num_train=split.num_train,
        num_validation=split.num_validation,
        num_test=len(split.order) - split.num_train,
        seed=seed,
        held_out_test=split.is_held_out,
        missing_numbers=numbers_among(options.missing_words),
        missing_words=options.missing_words,
        labels_separator=None if targets.sets is None else options.labels_separator,
        encoding=options.encoding,
        notes=[*roles.notes, *describe_split(targets, split)],
    )
    if targets.numbers is not None:
        index.target_mean, index.target_std = measure(targets.numbers[train])
        index.target_written = judged.profiles[roles.target].written
        values = pa.array(targets.numbers[split.order], pa.float64())
    else:
        values = pa.array(targets.labels[split.order], pa.int32())
    labels = None if targets.sets is None else targets.sets.take(split.order)
    is_text = roles.task == "text-classification"
    places = None if is_text else judged.faults.locate.list_places(split.order[split.num_train :])
    write_index(index_path, index, features, values, split.ranks, labels=labels, places=places)
    report.counts = count_samples(targets, split)
    report.label_counts = count_labels(targets, split)
    report.columns = add_statistics(
        report.columns, columns, targets, train=train, locate=judged.faults.locate
    )
    return index
