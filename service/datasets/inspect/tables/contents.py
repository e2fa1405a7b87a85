"""Describes the contents of a valid table: counts, columns with their statistics, notes."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from redkiln.tables import Column
from redkiln.views.dataset import ColumnView
from service.datasets.inspect.quality.row_groups import group_rows, group_texts
from service.datasets.inspect.quality.tables import MOST_BYTES, MOST_ROWS, USUAL_COPIES
from service.datasets.inspect.report import show
from service.datasets.inspect.tables.faults import RowLocations
from service.datasets.inspect.tables.index_file import Split, measure
from service.datasets.inspect.tables.profile import Profile
from service.datasets.inspect.tables.roles import NUMBERS_ROWS, Roles, Use
from service.datasets.inspect.tables.targets import Targets

SHOWN_CATEGORIES = 20


def count_samples(targets: Targets, split: Split) -> dict[str, dict[str, int]]:
    """Return the number of rows by split and class.

    Of a regression, and of rows with several labels, it is by split and `rows`.
    """
    parts = _list_parts(split)
    if targets.numbers is not None or targets.sets is not None:
        return {name: {"rows": len(rows)} for name, rows in parts.items()}
    return {
        name: _name_counts(
            targets, np.bincount(targets.labels[rows], minlength=len(targets.classes))
        )
        for name, rows in parts.items()
    }


def count_labels(targets: Targets, split: Split) -> dict[str, dict[str, int]]:
    """Return the number of rows with each label by split; empty if each row has one class."""
    sets = targets.sets
    if sets is None:
        return {}
    return {
        name: _name_counts(targets, sets.count(rows)) for name, rows in _list_parts(split).items()
    }


def _list_parts(split: Split) -> dict[str, np.ndarray]:
    first = split.num_train - split.num_validation
    parts = {"train": split.order[:first]}
    if split.num_validation:
        parts["validation"] = split.order[first : split.num_train]
    return parts | {"test": split.order[split.num_train :]}


def _name_counts(targets: Targets, counts: np.ndarray) -> dict[str, int]:
    pairs = zip(targets.classes, counts, strict=True)
    return {show(label): int(count) for label, count in pairs if count}


def view_column(found: Profile, use: Use, *, is_used: np.ndarray) -> ColumnView:
    """Return the view of a column, without statistics.

    Args:
        found: Profile of the column.
        use: Its use.
        is_used: (N,) bool; False for skipped rows.
    """
    return ColumnView(
        name=show(found.name),
        type=use.type,
        note=use.note,
        num_missing=int((found.is_missing & is_used).sum()),
    )


def add_statistics(
    views: Sequence[ColumnView],
    columns: Sequence[Column],
    targets: Targets,
    *,
    train: np.ndarray,
    locate: RowLocations,
) -> list[ColumnView]:
    """Return the views of all columns, with the statistics of the used ones.

    Args:
        views: Views of all columns.
        columns: The features, as the index describes them.
        targets: Targets of all rows.
        train: Indexes of the training rows.
        locate: Returns the place of a row.
    """
    by_name = {show(column.name): column for column in columns}
    described = []
    for view in views:
        column = by_name.get(view.name)
        facts: dict[str, object] = {}
        if view.type == "target":
            facts = _describe_target(targets, train, locate)
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


def describe_split(targets: Targets, split: Split) -> list[str]:
    """Return notes on rows that were held out, and on classes without test rows."""
    notes = []
    if split.num_validation:
        notes.append(
            f"every job validates on the {split.num_validation} rows of the validation split"
        )
    test = split.order[split.num_train :]
    if split.is_held_out:
        notes.append(
            f"there is no test split: {len(test)} of {len(split.order)} rows were held out for "
            "testing, the same ones for every job"
        )
    if targets.sets is not None:
        sizes = targets.sets.sizes[split.order]
        notes.append(
            f"each row has {sizes.mean():.2f} labels on average, at most {sizes.max()}; rows are "
            "split by their rarest label"
        )
    if targets.numbers is None:
        for part, rows in (("training", split.order[: -len(test) or None]), ("test", test)):
            notes += _note_absent(targets, rows, part)
    return notes


def _note_absent(targets: Targets, rows: np.ndarray, part: str) -> list[str]:
    labels = targets.labels[rows] if targets.sets is None else targets.sets.take(rows).flatten()
    present = set(labels.tolist() if isinstance(labels, np.ndarray) else labels.to_pylist())
    absent = [name for label, name in enumerate(targets.classes) if label not in present]
    if not absent:
        return []
    shown = ", ".join(show(name) for name in absent[:10])
    classes = "1 class has" if len(absent) == 1 else f"{len(absent)} classes have"
    return [f"{classes} no {part} row: {shown}"]


def _describe_target(
    targets: Targets, train: np.ndarray, locate: RowLocations
) -> dict[str, object]:
    if targets.numbers is None:
        return {
            "num_categories": len(targets.classes),
            "categories": [show(name) for name in targets.classes[:SHOWN_CATEGORIES]],
            "num_missing": 0,
        }
    values = targets.numbers[train]
    return {
        "minimum": float(values.min()),
        "minimum_at": locate(int(train[values.argmin()])),
        "maximum": float(values.max()),
        "mean": measure(values)[0],
        "num_missing": 0,
    }


def number_unused(
    profiles: dict[str, Profile], roles: Roles, order: np.ndarray
) -> dict[str, np.ndarray]:
    """Return for each column that is not used a number (N,) that rows with the same value share.

    Columns that only number the rows are left out, because copies differ in them, too.

    Args:
        profiles: Profiles of all columns.
        roles: Roles of the columns.
        order: (N,) row of the file of each row of the index.
    """
    names = [
        name
        for name, use in roles.uses.items()
        if use.type == "ignored" and use.note != NUMBERS_ROWS
    ]
    return {name: _encode(profiles[name])[order] for name in names}


def find_gaps(
    profiles: dict[str, Profile], columns: Sequence[Column], order: np.ndarray
) -> dict[str, np.ndarray]:
    """Return where each column of the file that is used is empty, as (N,) bool.

    Args:
        profiles: Profiles of all columns.
        columns: Features of the index; a derived one stands for the column that it comes from.
        order: (N,) row of the file of each row of the index.
    """
    names = [column.name if column.derived is None else column.derived.column for column in columns]
    return {name: profiles[name].is_missing[order] for name in dict.fromkeys(names)}


def number_copies(profiles: dict[str, Profile], roles: Roles, *, is_used: np.ndarray) -> np.ndarray:
    """Return a number (N,) int64 that rows share which are equal in the columns that are used.

    Each row has its own number if equal rows are usual, or if the table is too large to compare
    them.

    Args:
        profiles: Profiles of all columns.
        roles: Roles of the columns.
        is_used: (N,) bool; False for skipped rows.
    """
    alone = np.arange(len(is_used))
    names = roles.of_type("numeric", "categorical", "text")
    num_bytes = sum(profiles[name].raw.nbytes for name in names)
    if len(is_used) > MOST_ROWS or num_bytes > MOST_BYTES:
        return alone
    if roles.task == "text-classification":
        return group_texts(profiles[names[0]].texts.fill_null("").to_pylist())
    values = [_number_values(profiles[name], roles.uses[name]) for name in names]
    numbers = group_rows(pa.table(values, names), names)
    are_usual = len(np.unique(numbers[is_used])) < (1 - USUAL_COPIES) * is_used.sum()
    return alone if are_usual else numbers


def _number_values(found: Profile, use: Use) -> np.ndarray:
    if use.type == "numeric" and found.numbers is not None:
        return found.numbers
    return _encode(found)


def _encode(found: Profile) -> np.ndarray:
    """Return a number (N,) that rows with the same value share; a missing one is a value."""
    encoded = pc.dictionary_encode(found.texts, null_encoding="encode").combine_chunks()
    codes: np.ndarray = encoded.indices.to_numpy()
    return codes
