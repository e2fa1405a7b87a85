"""Finds the image of each row of `labels.csv`, and what does not fit together."""

from collections import Counter
from collections.abc import Sequence

from redkiln.cells.file_names import FileNames, is_image_name
from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.labelled.rows import LabelRow
from service.datasets.inspect.layout import HELD_SPLITS, Layout, Member
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.near_classes import find_near_classes
from service.datasets.inspect.report import MAX_LISTED, problem, quote, refuse, show

NO_LABEL = (
    "the row has no label; remove it, or give images without any of the labels another one, such "
    "as `other`"
)


def arrange_labelled(
    files: Sequence[Entry],
    labels_file: Entry,
    rows: Sequence[LabelRow],
    *,
    names: FileNames,
    has_labels: bool,
) -> tuple[Layout, list[DatasetProblem], list[DatasetProblem]]:
    """Return the layout of the labelled images, and the rows without an image and without a label.

    Images without a row are outside the layout. An image's class is its rarest label, by which the
    set is split; `Member.labels` has all of them.

    Args:
        files: All files.
        labels_file: The `labels.csv`.
        rows: Its rows.
        names: The files by the names that the rows may have for them.
        has_labels: Whether an image can have several labels.

    Raises:
        Refused: Rows name a file twice.
    """
    places = {id(row): names.find(row.file) for row in rows}
    found = {row: place for row, place in places.items() if place is not None}
    missing = [
        problem("missing_image", show(names.explain_missing(row.file)), row.place)
        for row in rows
        if id(row) not in found
    ]
    _refuse_repeated(rows, found)
    unlabelled = [
        problem("bad_label_row", NO_LABEL, row.place)
        for row in rows
        if id(row) in found and not row.labels
    ]
    counts = Counter(label for row in rows for label in row.labels)
    layout = Layout(
        members=[
            Member(
                found[id(row)],
                row.split or "train",
                min(row.labels, key=lambda label: (counts[label], label)),
                tuple(row.labels) if has_labels else (),
            )
            for row in rows
            if id(row) in found and row.labels
        ],
        has_test=any(row.split == "test" for row in rows),
        notes=[f"{labels_file.path} gives the labels; names of folders do not count"],
    )
    used = set(found.values())
    layout.outside = [
        place
        for place, entry in enumerate(files)
        if place not in used and is_image_name(entry.parts[-1])
    ]
    return layout, missing, unlabelled


def find_untrained(rows: Sequence[LabelRow]) -> list[DatasetProblem]:
    """Report labels of the other splits that no training row has."""
    trained = {label for row in rows if row.split in (None, "train") for label in row.labels}
    problems = []
    for split in HELD_SPLITS:
        firsts = {
            label: row for row in reversed(rows) if row.split == split for label in row.labels
        }
        unknown = sorted(firsts.keys() - trained)[:MAX_LISTED]
        near = find_near_classes(unknown, trained)
        for label in unknown:
            hint = f"did you mean {quote(near[label])}?" if label in near else "add training rows"
            message = f"the {split} label {quote(label)} has no training image; {hint}"
            problems.append(problem(f"unknown_{split}_class", message, firsts[label].place))
    return problems


def list_names(files: Sequence[Entry], labels_file: Entry) -> FileNames:
    """Return the files by the names that `labels.csv` may have for them."""
    depth = len(labels_file.parts) - 1
    return FileNames(["/".join(entry.parts[depth:]) for entry in files])


def _refuse_repeated(rows: Sequence[LabelRow], found: dict[int, int]) -> None:
    firsts: dict[int, LabelRow] = {}
    for row in rows:
        first = firsts.setdefault(found.get(id(row), -1), row)
        if id(row) in found and first is not row:
            message = f"{show(row.file)} has a row already ({first.place}); keep one of them"
            raise refuse("duplicate_row", message, row.place)
