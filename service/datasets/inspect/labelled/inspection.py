"""Inspects images with a `labels.csv`."""

from collections import Counter
from collections.abc import Sequence

from redkiln.cells.label_file import ONE_CLASS, SEPARATOR
from redkiln.datasets import DatasetIndex
from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.labelled.arrangement import (
    arrange_labelled,
    find_untrained,
    list_names,
)
from service.datasets.inspect.labelled.rows import LabelRow, read_rows
from service.datasets.inspect.layout import Layout
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.probing import probe_all
from service.datasets.inspect.quality.classes import check_classes
from service.datasets.inspect.quality.images import check_images
from service.datasets.inspect.quality.spellings import check_spellings
from service.datasets.inspect.report import (
    MAX_LISTED,
    InspectionReport,
    problem,
    refuse,
    show,
)
from service.datasets.inspect.source import Source
from service.datasets.inspect.tables.value_types.labels import (
    are_surely_sets,
    find_separator,
    say_unsplit,
)
from service.datasets.inspect.verdict import (
    Found,
    build_index,
    count_classes,
    count_sizes,
    find_bad_files,
    no_test_split,
    sort_out,
)


def inspect_labelled(
    source: Source,
    files: Sequence[Entry],
    labels_file: Entry,
    *,
    separator: str | None,
    target: str | None = None,
    encoding: str | None = None,
    seed: int,
    num_processes: int,
    limits: Limits,
) -> tuple[DatasetIndex | None, InspectionReport]:
    """Return the index, if the data set is valid, and the report.

    Without a given separator, and if no image has two labels, each image has one class.

    Args:
        source: The data set.
        files: Its files.
        labels_file: Its `labels.csv`.
        separator: Separator of the labels in a cell; None for `;`, `none` if each is one class.
        target: Column of the labels, if the user gave one.
        encoding: Encoding of `labels.csv`, if the user gave one.
        seed: Random seed of the splits.
        num_processes: Processes that read images.
        limits: Limits of the inspection.

    Raises:
        Refused: The set cannot be used, nor inspected completely.
    """
    names = list_names(files, labels_file)
    rows, notes = read_rows(
        source,
        labels_file,
        names=names,
        target=target,
        separator=separator,
        limits=limits,
        encoding=encoding,
    )
    has_labels = _has_several(rows, labels_file, separator=separator)
    layout, missing, unlabelled = arrange_labelled(
        files, labels_file, rows, names=names, has_labels=has_labels
    )
    entries = [files[member.position] for member in layout.members]
    probes = probe_all(source, entries, limits=limits, num_processes=num_processes)
    found = sort_out(files, layout, probes)
    report = _report(files, rows, layout, found, missing, unlabelled)
    report.notes[:0] = notes
    surely_unsplit, unsplit = ([], []) if has_labels or separator else _find_unsplit(report.classes)
    report.errors = [
        *found.fatal,
        *find_bad_files(
            found, limits=limits, missing=missing, unlabelled=unlabelled, num_rows=len(rows)
        ),
        *_find_few(report.classes, limits=limits),
        *surely_unsplit,
        *find_untrained(rows),
    ][: MAX_LISTED + 10]
    if report.errors:
        return None, report
    index = build_index(found.images, layout, report, seed=seed)
    if not index.splits["test"]:
        report.errors = [no_test_split("a column `split` with train and test")]
        return None, report
    if has_labels:
        index.format, index.labels_separator = 2, separator or SEPARATOR
        report.label_counts = _count_labels(index)
    report.notes, report.counts = index.notes, count_classes(index)
    looks = {e.path: p.facts.look for e, p in zip(entries, probes, strict=True)
             if p.facts and p.facts.look}  # fmt: skip
    counts = report.label_counts or report.counts
    report.warnings = [
        *unsplit,
        *check_classes(counts, are_labels=has_labels),
        *check_spellings(report.classes),
        *check_images(index, looks),
    ]
    return index, report


def _find_unsplit(classes: Sequence[str]) -> tuple[list[DatasetProblem], list[DatasetProblem]]:
    """Return an error or a warning if classes look like sets of labels with another separator."""
    separator = find_separator(classes)
    if separator is None:
        return [], []
    message = say_unsplit("each cell of the labels", "the images", classes, separator)
    found = [problem("labels_not_split", message)]
    return (found, []) if are_surely_sets(classes, separator) else ([], found)


def _has_several(rows: Sequence[LabelRow], labels_file: Entry, *, separator: str | None) -> bool:
    has_several = any(len(row.labels) > 1 for row in rows)
    if separator not in (None, ONE_CLASS) and not has_several:
        message = (
            f"no row has two labels separated by {separator!r}; give the right separator as "
            "labels_separator=CHAR, or remove it if each image has one class"
        )
        raise refuse("no_separator", message, labels_file.path)
    return has_several


def _report(
    files: Sequence[Entry],
    rows: Sequence[LabelRow],
    layout: Layout,
    found: Found,
    missing: Sequence[DatasetProblem],
    unlabelled: Sequence[DatasetProblem],
) -> InspectionReport:
    outside = [
        problem("no_label_row", "has no row in labels.csv", files[place].path)
        for place in layout.outside[:MAX_LISTED]
    ]
    notes = list(layout.notes)
    if num := len(layout.outside):
        images = "1 image has" if num == 1 else f"{num} images have"
        names = ", ".join(entry.path or "" for entry in outside[:3])
        notes.append(f"{images} no row in labels.csv and cannot be used, such as {names}")
    if missing:
        notes.append(
            "1 row of labels.csv names a file that is missing; it was skipped"
            if len(missing) == 1
            else f"{len(missing)} rows of labels.csv name files that are missing; they were skipped"
        )
    if unlabelled:
        notes.append(
            "1 row of labels.csv has no label; it was skipped"
            if len(unlabelled) == 1
            else f"{len(unlabelled)} rows of labels.csv have no label; they were skipped"
        )
    return InspectionReport(
        classes=sorted({label for row in rows for label in row.labels}),
        image_sizes=count_sizes(found.images),
        image_modes=dict(Counter(image.facts.mode for image in found.images).most_common()),
        notes=notes,
        num_skipped=found.num_bad + len(missing) + len(unlabelled) + len(layout.outside),
        skipped=[*found.bad, *missing, *unlabelled, *outside][:MAX_LISTED],
        size_bytes=sum(image.size_bytes for image in found.images),
    )


def _find_few(classes: Sequence[str], *, limits: Limits) -> list[DatasetProblem]:
    if len(classes) > limits.max_classes:
        message = f"there are {len(classes)} labels, but at most {limits.max_classes} are allowed"
        return [problem("too_many_classes", message)]
    if len(classes) < 2:
        only = f" ({show(classes[0])})" if classes else ""
        message = f"there is only one label{only}; a classifier needs at least two"
        return [problem("one_class", message)]
    return []


def _count_labels(index: DatasetIndex) -> dict[str, dict[str, int]]:
    """Return the number of images with each label by split."""
    first = len(index.splits["train"]) - index.num_validation
    parts = {"train": index.splits["train"][:first]}
    if index.num_validation:
        parts["validation"] = index.splits["train"][first:]
    parts["test"] = index.splits["test"]
    return {
        split: dict(
            sorted(Counter(index.classes[la] for s in some for la in s.labels or ()).items())
        )
        for split, some in parts.items()
    }
