"""Describes the contents of a valid table: counts, columns with their statistics, notes."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from redkiln.tables import Column
from redkiln.views.dataset import ColumnView
from service.datasets.inspect.report import show
from service.datasets.inspect.tables.index_file import Split, measure
from service.datasets.inspect.tables.profile import Profile
from service.datasets.inspect.tables.roles import Use
from service.datasets.inspect.tables.targets import Targets

SHOWN_CATEGORIES = 20


def count_samples(targets: Targets, split: Split) -> dict[str, dict[str, int]]:
    """Return the number of rows by split and class; of a regression, by split and `rows`."""
    first = split.num_train - split.num_validation
    parts = {"train": split.order[:first]}
    if split.num_validation:
        parts["validation"] = split.order[first : split.num_train]
    parts["test"] = split.order[split.num_train :]
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


def view_column(found: Profile, use: Use) -> ColumnView:
    """Return the view of a column, without statistics."""
    return ColumnView(
        name=show(found.name),
        type=use.type,
        note=use.note,
        num_missing=int(found.is_missing.sum()),
    )


def add_statistics(
    views: Sequence[ColumnView], columns: Sequence[Column], targets: Targets, *, train: np.ndarray
) -> list[ColumnView]:
    """Return the views of all columns, with the statistics of the used ones.

    Args:
        views: Views of all columns.
        columns: The features, as the index describes them.
        targets: Targets of all rows.
        train: Indexes of the training rows.
    """
    by_name = {show(column.name): column for column in columns}
    described = []
    for view in views:
        column = by_name.get(view.name)
        facts: dict[str, object] = {}
        if view.type == "target":
            facts = _describe_target(targets, train)
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
    if targets.numbers is None:
        tested = Counter(targets.labels[test].tolist())
        untested = [name for label, name in enumerate(targets.classes) if not tested[label]]
        if untested:
            shown = ", ".join(show(name) for name in untested[:10])
            notes.append(f"{len(untested)} classes have no test row: {shown}")
    return notes


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
