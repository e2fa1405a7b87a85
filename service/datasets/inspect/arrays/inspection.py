"""Decides whether arrays of images are a valid data set, and builds their index."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from redkiln.datasets import DatasetIndex, Sample, rank_within_classes
from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.arrays.content import (
    Array,
    as_values,
    list_npz,
    parse_array,
    read_file,
    unpack_inner,
)
from service.datasets.inspect.arrays.naming import NPZ, ArrayFile, Part, arrange_arrays
from service.datasets.inspect.images import BadImage
from service.datasets.inspect.layout import Split
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.look import ArrayLook, shrink_array
from service.datasets.inspect.near_classes import find_near_classes
from service.datasets.inspect.quality.images import check_rows
from service.datasets.inspect.quality.row_groups import digest_rows
from service.datasets.inspect.report import MAX_LISTED, InspectionReport, Refused, problem, refuse
from service.datasets.inspect.source import Source
from service.datasets.inspect.verdict import (
    IndexSplits,
    count_classes,
    join_splits,
    no_test_split,
    note_validation,
)

MAX_CLASSES = 10_000
_MAX_SHOWN = 20
"""Maximum names of known classes in a message about an unknown one."""


@dataclass(frozen=True)
class _Images:
    """A part whose shape and labels have been read.

    Attributes:
        labels: Label of each row, as text.
        look: How the images look.
        sha256: Digest of the images' file; None if one digest covers the whole data set.
    """

    part: Part
    shape: tuple[int, int, int]
    labels: list[str]
    look: ArrayLook
    sha256: str | None


def inspect_arrays(
    source: Source, entries: Sequence[Entry], *, seed: int, limits: Limits
) -> tuple[DatasetIndex | None, InspectionReport]:
    """Return the index, if the arrays are valid, and the report.

    Args:
        source: Source from which the arrays are read.
        entries: All files of the data set.
        seed: Random seed of the sample order.
        limits: Limits of the inspection.

    Raises:
        Refused: A file cannot be read.
    """
    arrays = arrange_arrays(_list_arrays(source, entries, limits=limits))
    if arrays.errors:
        return None, InspectionReport(errors=arrays.errors[:MAX_LISTED])
    parts: list[_Images] = []
    errors: list[DatasetProblem] = []
    for part in arrays.parts:
        try:
            parts.append(_read_part(source, part, limits=limits))
        except Refused as refused:
            errors += refused.problems
    if not errors:
        errors = _find_mistakes(parts)
    if errors:
        return None, InspectionReport(errors=errors[:MAX_LISTED])
    index = _build_index(parts, seed=seed)
    if not index.splits["test"]:
        return None, InspectionReport(errors=[no_test_split("test arrays")])
    report = _build_report(index, parts)
    looks = {(i.part.images.entry.path, i.part.images.inner): i.look for i in parts}
    report.warnings = check_rows(index, looks)
    return index, report


def _list_arrays(source: Source, entries: Sequence[Entry], *, limits: Limits) -> list[ArrayFile]:
    files: list[ArrayFile] = []
    for entry in entries:
        if not entry.path.lower().endswith(NPZ):
            files.append(ArrayFile(entry.path, entry))
            continue
        try:
            files += list_npz(read_file(source, entry, limits=limits), entry)
        except BadImage as bad:
            raise refuse(bad.code, bad.message, entry.path) from None
    return files


def _read_part(source: Source, part: Part, *, limits: Limits) -> _Images:
    images, sha256 = _read_array(source, part.images, limits=limits)
    shape = _check_images(images, part.images.path, limits=limits)
    num_images = images.shape[0]
    digests = digest_rows(images.data, num_images)
    look = ArrayLook(digests, shrink_array(as_values(images).reshape(num_images, *shape)))
    del images
    array, _ = _read_array(source, part.labels, limits=limits)
    labels = _read_labels(array, part.labels.path)
    if len(labels) != num_images:
        message = f"has {len(labels)} labels for the {num_images} images of {part.images.path}"
        raise refuse("unequal_arrays", message, part.labels.path)
    return _Images(part, shape, labels, look, None if source.has_digest else sha256)


def _read_array(source: Source, file: ArrayFile, *, limits: Limits) -> tuple[Array, str]:
    try:
        content = read_file(source, file.entry, limits=limits)
        digest = hashlib.sha256(content).hexdigest()
        if file.inner is not None:
            content = unpack_inner(content, file.inner)
        return parse_array(content), digest
    except BadImage as bad:
        raise refuse(bad.code, bad.message, file.path) from None


def _check_images(array: Array, path: str, *, limits: Limits) -> tuple[int, int, int]:
    """Check an array of images; return its height, width and channels."""
    shape = array.shape
    if array.dtype not in ("|u1", "uint8"):
        message = f"contains {array.dtype} values; save images as uint8, 0 to 255"
        raise refuse("bad_array", message, path)
    if len(shape) == 4 and shape[3] not in (1, 3) and shape[1] in (1, 3):
        message = f"has shape {shape}; put channels last: (N, height, width, channels)"
        raise refuse("bad_array", message, path)
    if len(shape) not in (3, 4) or (len(shape) == 4 and shape[3] not in (1, 3)):
        message = (
            f"has shape {shape}; images must be (N, height, width) or (N, height, width, 1 or 3)"
        )
        raise refuse("bad_array", message, path)
    if 0 in shape:
        raise refuse("bad_array", f"has shape {shape} and so contains no image", path)
    if shape[1] * shape[2] > limits.max_pixels:
        message = f"has images of more than {limits.max_pixels} pixels; make them smaller"
        raise refuse("image_bomb", message, path)
    return shape[1], shape[2], shape[3] if len(shape) == 4 else 1


def _read_labels(array: Array, path: str) -> list[str]:
    kind = np.dtype(array.dtype).kind
    shape = array.shape[:-1] if array.shape[1:] == (1,) else array.shape
    if len(shape) != 1:
        message = f"has shape {array.shape}; labels must be (N,), one number or name for each image"
        raise refuse("bad_labels", message, path)
    if kind not in "iuU":
        message = f"contains {array.dtype} values; save labels as integers or as names"
        raise refuse("bad_labels", message, path)
    labels = [str(value).strip() for value in as_values(array).reshape(-1).tolist()]
    for row, label in enumerate(labels):
        if not label or len(label) > 200 or not label.isprintable():
            raise refuse("bad_labels", f"row {row}: {label!r} is not a valid class name", path)
    return labels


def _find_mistakes(parts: Sequence[_Images]) -> list[DatasetProblem]:
    train = {label for images in parts if images.part.split == "train" for label in images.labels}
    if len(train) < 2:
        message = f"there is only one class ({', '.join(train)}); a classifier needs at least two"
        return [problem("one_class", message)]
    if len(train) > MAX_CLASSES:
        message = f"there are {len(train)} different labels; at most {MAX_CLASSES} are allowed"
        return [problem("too_many_classes", message)]
    found = []
    for images in parts:
        if images.part.split != "train":
            found += _find_untrained(images, train)
    return found + _find_other_shapes(parts)


def _find_untrained(images: _Images, train: set[str]) -> list[DatasetProblem]:
    """Report the classes of another split that no training image has, each by its first row."""
    rows: dict[str, int] = {}
    for row, label in enumerate(images.labels):
        rows.setdefault(label, row)
    unknown = sorted(set(rows) - train)[:MAX_LISTED]
    near = find_near_classes(unknown, train)
    known = ", ".join(sorted(train)[:_MAX_SHOWN]) + (", ..." if len(train) > _MAX_SHOWN else "")
    found = []
    for label in unknown:
        hint = f"did you mean {near[label]!r}?" if label in near else f"training classes: {known}"
        message = f"row {rows[label]}: no training image has class {label!r}; {hint}"
        found.append(
            problem(f"unknown_{images.part.split}_class", message, images.part.labels.path)
        )
    return found


def _find_other_shapes(parts: Sequence[_Images]) -> list[DatasetProblem]:
    first, *others = parts
    return [
        problem(
            "unequal_arrays",
            f"has {other.shape[2]} channels, but {first.part.images.path} has {first.shape[2]}",
            other.part.images.path,
        )
        for other in others
        if other.shape[2] != first.shape[2]
    ]


def _build_index(parts: Sequence[_Images], *, seed: int) -> DatasetIndex:
    names = {label for images in parts for label in images.labels}
    classes = sorted(names, key=_class_order(names))
    numbers = {name: number for number, name in enumerate(classes)}
    ranked: dict[Split, list[Sample]] = {"train": [], "validation": [], "test": []}
    for split, samples in ranked.items():
        mine = [images for images in parts if images.part.split == split]
        labels = [numbers[label] for images in mine for label in images.labels]
        ranks = iter(rank_within_classes(labels, seed=seed))
        samples += [
            Sample(
                path=images.part.images.entry.path,
                row=row,
                array=images.part.images.inner,
                label=numbers[label],
                rank=next(ranks),
                sha256=images.sha256,
            )
            for images in mine
            for row, label in enumerate(images.labels)
        ]
    has_test = bool(ranked["test"])
    train = [images.look.digests for images in parts if images.part.split == "train"]
    splits = join_splits(ranked, np.concatenate(train), has_test=has_test)
    sizes = Counter({(i.shape[1], i.shape[0]): 0 for i in parts})
    for images in parts:
        sizes[images.shape[1], images.shape[0]] += len(images.labels)
    channels: Literal[1, 3] = 1 if parts[0].shape[2] == 1 else 3
    return DatasetIndex(
        classes=classes,
        splits=splits,
        image_size=sizes.most_common(1)[0][0],
        mixed_sizes=len(sizes) > 1,
        channels=channels,
        seed=seed,
        num_validation=len(ranked["validation"]),
        held_out_test=not has_test,
        notes=_notes(splits, num_validation=len(ranked["validation"]), has_test=has_test),
    )


def _class_order(names: set[str]) -> "type[int] | type[str]":
    """Return the sort key's type: int if all names are integers, else str."""
    return int if all(name.lstrip("-").isdecimal() for name in names) else str


def _notes(splits: IndexSplits, *, num_validation: int, has_test: bool) -> list[str]:
    notes = note_validation(num_validation)
    if not has_test:
        total = len(splits["test"]) + len(splits["train"])
        notes.append(
            f"there are no test arrays: {len(splits['test'])} of {total} images were held out for "
            "testing, the same ones for every job"
        )
    return notes


def _build_report(index: DatasetIndex, parts: Sequence[_Images]) -> InspectionReport:
    sizes: Counter[str] = Counter()
    for images in parts:
        sizes[f"{images.shape[1]}x{images.shape[0]}"] += len(images.labels)
    num_images = sum(sizes.values())
    return InspectionReport(
        task=index.task,
        classes=index.classes,
        counts=count_classes(index),
        image_sizes=dict(sizes),
        image_modes={"L" if index.channels == 1 else "RGB": num_images},
        notes=index.notes,
        size_bytes=sum(i.shape[0] * i.shape[1] * i.shape[2] * len(i.labels) for i in parts),
    )
