"""Decides from the names and contents of the files whether a set of images is valid."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar, get_args

import numpy as np

from redkiln.datasets import (
    DatasetIndex,
    ImageFile,
    Sample,
    rank_within_classes,
)
from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.images import ImageFacts
from service.datasets.inspect.layout import HELD_SPLITS, Layout, Member, Split
from service.datasets.inspect.limits import Limits, Unusable, find_excess
from service.datasets.inspect.listing import Entry, describe
from service.datasets.inspect.near_classes import find_near_classes
from service.datasets.inspect.probing import Probe
from service.datasets.inspect.quality.draw import draw_test, rank_together
from service.datasets.inspect.quality.images import group_exactly
from service.datasets.inspect.report import (
    GREY_MODES,
    MAX_LISTED,
    MAX_SIZES,
    OTHER_SIZES,
    InspectionReport,
    note_skipped,
    problem,
)

OfFile = TypeVar("OfFile", bound=ImageFile)
SplitsOf = dict[Literal["train", "test"], list[OfFile]]
IndexSplits = SplitsOf[Sample]
"""Samples as in an index: those of an own validation split are the last of `train`."""
FATAL = {"image_bomb", "compression_bomb"}
"""Faults that no harmless file has: one is enough to refuse the set."""


@dataclass(frozen=True)
class Image:
    """A usable image of the data set."""

    entry: Entry
    member: Member
    facts: ImageFacts
    sha256: str | None
    size_bytes: int


@dataclass
class Found:
    """The files of the class folders, sorted into usable, bad and fatal ones.

    Attributes:
        bad: The first bad ones, at most MAX_LISTED.
        fatal: The first fatal ones, at most MAX_LISTED.
    """

    images: list[Image] = field(default_factory=list)
    bad: list[DatasetProblem] = field(default_factory=list)
    fatal: list[DatasetProblem] = field(default_factory=list)
    num_bad: int = 0


def judge(
    files: Sequence[Entry],
    layout: Layout,
    probes: Sequence[Probe],
    *,
    seed: int,
    limits: Limits,
) -> tuple[DatasetIndex | None, InspectionReport]:
    """Return the index, if the data set is valid, and the report.

    Args:
        files: All files that were listed.
        layout: Splits and classes of the files.
        probes: One probe for each of `layout.members`.
        seed: Random seed of the sample order.
        limits: Limits of the inspection.
    """
    found = sort_out(files, layout, probes)
    report = InspectionReport(
        classes=sorted({name for _, name in layout.class_folders}),
        counts=_count(found.images),
        image_sizes=count_sizes(found.images),
        image_modes=dict(Counter(image.facts.mode for image in found.images).most_common()),
        notes=[*layout.notes, *note_skipped(found.bad, "files", num=found.num_bad)],
        num_skipped=found.num_bad + len(layout.outside),
        skipped=(found.bad + _outside(files, layout))[:MAX_LISTED],
        errors=[*found.fatal, *_find_errors(layout, found, limits=limits)][: MAX_LISTED + 10],
        size_bytes=sum(image.size_bytes for image in found.images),
    )
    if report.errors:
        return None, report
    index = build_index(found.images, layout, report, seed=seed)
    if not index.splits["test"]:
        report.errors = [no_test_split("test/<class>/ folders")]
        return None, report
    report.notes = index.notes
    report.counts = count_classes(index)
    return index, report


def count_classes(index: DatasetIndex) -> dict[str, dict[str, int]]:
    """Return the number of samples by split and class; by split with several labels a sample."""
    first = len(index.splits["train"]) - index.num_validation
    parts = {"train": index.splits["train"][:first]}
    if index.num_validation:
        parts["validation"] = index.splits["train"][first:]
    parts["test"] = index.splits["test"]
    if index.labels_separator is not None:
        return {split: {"images": len(samples)} for split, samples in parts.items()}
    return {
        split: dict(sorted(Counter(index.classes[s.label] for s in samples).items()))
        for split, samples in parts.items()
    }


def sort_out(files: Sequence[Entry], layout: Layout, probes: Sequence[Probe]) -> Found:
    """Sort the members of a layout into usable, bad and fatal files, by their probes."""
    found = Found()
    for member, probe in zip(layout.members, probes, strict=True):
        entry = files[member.position]
        if probe.facts is not None:
            image = Image(entry, member, probe.facts, probe.sha256, probe.size_bytes)
            found.images.append(image)
            continue
        assert probe.fault is not None
        code, message = probe.fault
        listed = found.fatal if code in FATAL else found.bad
        found.num_bad += code not in FATAL
        if len(listed) < MAX_LISTED:
            listed.append(problem(code, message, entry.path))
    found.images.sort(key=lambda image: image.entry.parts)
    return found


def _outside(files: Sequence[Entry], layout: Layout) -> list[DatasetProblem]:
    return [
        problem("not_in_a_class", "is not in a class folder", files[position].path)
        for position in layout.outside[:MAX_LISTED]
    ]


def _find_errors(layout: Layout, found: Found, *, limits: Limits) -> list[DatasetProblem]:
    if not layout.class_folders:
        message = (
            "there are no class folders; put the images in train/<class>/ and test/<class>/, or in "
            "<class>/"
        )
        return [problem("no_classes", message)]
    return [
        *find_bad_files(found, limits=limits),
        *_empty_classes(layout, found),
        *_class_mistakes(layout, limits=limits),
    ]


def find_bad_files(
    found: Found,
    *,
    limits: Limits,
    missing: Sequence[DatasetProblem] = (),
    unlabelled: Sequence[DatasetProblem] = (),
    num_rows: int = 0,
) -> list[DatasetProblem]:
    """Return the problem that too many files are not usable images, if so, and all of them.

    Args:
        found: The files.
        limits: Limits of the inspection.
        missing: Rows of `labels.csv` that name files that do not exist.
        unlabelled: Its rows without a label.
        num_rows: Number of all rows.
    """
    num_files = len(found.images) + found.num_bad
    kinds = [
        Unusable(found.num_bad, num_files, "files are not usable images"),
        Unusable(len(missing), num_rows, "rows name files that do not exist"),
        Unusable(len(unlabelled), num_rows, "rows have no label"),
    ]
    message = find_excess(kinds, limits)
    if message is None:
        return []
    code = "missing_images" if missing else "bad_label_row"
    code = "too_many_bad_files" if found.num_bad else code
    rows = [*missing[:MAX_LISTED], *unlabelled[:MAX_LISTED]]
    return [problem(code, message), *found.bad, *rows]


def _empty_classes(layout: Layout, found: Found) -> list[DatasetProblem]:
    filled = {(image.member.split, image.member.class_name) for image in found.images}
    return [
        problem(
            "empty_class",
            "is a class folder without usable images; add some or remove the folder",
            describe(folders[0]),
        )
        for key, folders in sorted(layout.class_folders.items())
        if key not in filled
    ]


def _class_mistakes(layout: Layout, *, limits: Limits) -> list[DatasetProblem]:
    train = {name for split, name in layout.class_folders if split == "train"}
    if len(train) > limits.max_classes:
        message = (
            f"there are {len(train)} class folders, but at most {limits.max_classes} are allowed; "
            "put all images of a class in one folder"
        )
        return [problem("too_many_classes", message)]
    problems = []
    if len(train) < 2:
        names = ", ".join(describe((name,)) for name in sorted(train))
        message = f"there is only one class ({names}); a classifier needs at least two folders"
        problems.append(problem("one_class", message))
    for split in HELD_SPLITS:
        problems += _unknown_classes(layout, split, train)
    return problems


def _unknown_classes(layout: Layout, split: Split, train: set[str]) -> list[DatasetProblem]:
    held = {name for other, name in layout.class_folders if other == split}
    unknown = sorted(held - train)[:MAX_LISTED]
    near = find_near_classes(unknown, train)
    problems = []
    for name in unknown:
        hint = f"; did you mean {describe((near[name],))!r}?" if name in near else ""
        folder = describe(layout.class_folders[split, name][0])
        message = f"the {split} class {describe((name,))!r} has no training images{hint}"
        problems.append(problem(f"unknown_{split}_class", message, folder))
    return problems


def _count(images: Sequence[Image]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for image in images:
        of_split = counts.setdefault(image.member.split, {})
        of_split[image.member.class_name] = of_split.get(image.member.class_name, 0) + 1
    return counts


def count_sizes(images: Sequence[Image]) -> dict[str, int]:
    """Return the number of images by `<width>x<height>`, the most frequent sizes one by one."""
    sizes = Counter(f"{image.facts.width}x{image.facts.height}" for image in images)
    listed = dict(sizes.most_common(MAX_SIZES))
    rest = len(images) - sum(listed.values())
    return {**listed, OTHER_SIZES: rest} if rest else listed


def build_index(
    images: Sequence[Image], layout: Layout, report: InspectionReport, *, seed: int
) -> DatasetIndex:
    """Build the index of usable images; the report has their classes and the notes so far."""
    sizes = Counter((image.facts.width, image.facts.height) for image in images)
    is_grey = all(image.facts.mode in GREY_MODES for image in images)
    parts = _rank(images, report.classes, seed=seed)
    copies = group_exactly([im.facts.look for im in images if im.member.split == "train"])
    splits = join_splits(parts, copies, has_test=layout.has_test)
    channels: Literal[1, 3] = 1 if is_grey else 3
    return DatasetIndex(
        classes=report.classes,
        splits=splits,
        image_size=max(sizes, key=lambda size: (sizes[size], size)),
        mixed_sizes=len(sizes) > 1,
        channels=channels,
        seed=seed,
        num_validation=len(parts["validation"]),
        held_out_test=not layout.has_test,
        notes=[
            *report.notes,
            *note_validation(len(parts["validation"])),
            *_notes(splits, report.classes, layout, num_sizes=len(sizes)),
        ],
    )


def _rank(images: Sequence[Image], classes: list[str], *, seed: int) -> dict[Split, list[Sample]]:
    labels = {name: label for label, name in enumerate(classes)}
    splits: dict[Split, list[Sample]] = {}
    for split in get_args(Split):
        members = [image for image in images if image.member.split == split]
        ranks = rank_within_classes([labels[m.member.class_name] for m in members], seed=seed)
        splits[split] = [
            Sample(
                path=image.entry.path,
                label=labels[image.member.class_name],
                labels=[labels[name] for name in image.member.labels] or None,
                rank=rank,
                sha256=image.sha256,
            )
            for image, rank in zip(members, ranks, strict=True)
        ]
    return splits


def join_splits(
    parts: dict[Split, list[OfFile]], copies: np.ndarray, *, has_test: bool
) -> SplitsOf[OfFile]:
    """Return the splits of an index: its training split ends with the validation samples.

    Args:
        parts: Samples of each split that the set has.
        copies: Number of each of the training samples, which its copies share.
        has_test: Whether the set has a test split.
    """
    train, test = parts["train"], parts["test"]
    strata = np.array([sample.stratum for sample in train], np.int64)
    ranks = np.array([sample.rank for sample in train], np.int64)
    is_test = np.zeros(len(train), bool)
    if not has_test:
        is_test = draw_test(strata, ranks, copies)
        test = [train[row] for row in np.flatnonzero(is_test)]
    for rows in (np.flatnonzero(is_test), np.flatnonzero(~is_test)):
        order = rank_together(strata[rows], ranks[rows], copies[rows])
        for row, rank in zip(rows, order.tolist(), strict=True):
            train[row].rank = rank
    learnt = [train[row] for row in np.flatnonzero(~is_test)]
    return {"train": [*learnt, *parts["validation"]], "test": test}


def note_validation(num: int) -> list[str]:
    """Return the note on a data set's own validation split, if it has one."""
    note = f"every job validates on the {num} images of the validation split"
    return [note] if num else []


def no_test_split(remedy: str) -> DatasetProblem:
    """Build the problem of a set without a test split and with too few images to hold some out.

    Args:
        remedy: The files to add to give such a set a test split.
    """
    message = (
        "no image can be held out for testing because each class has only one; add images or "
        f"{remedy}"
    )
    return problem("no_test_split", message)


def note_held_out(splits: Mapping[Literal["train", "test"], Sequence[ImageFile]]) -> str:
    """Return the note that the test split was taken from the other images."""
    num_test = len(splits["test"])
    return (
        f"there is no test split: {num_test} of {len(splits['train']) + num_test} images were held "
        "out for testing, the same ones for every job"
    )


def note_sizes(num_sizes: int) -> list[str]:
    """Return the note on images of different sizes, if there are some."""
    note = f"the images have {num_sizes} different sizes; jobs resize them to one"
    return [note] if num_sizes > 1 else []


def _notes(
    splits: IndexSplits,
    classes: list[str],
    layout: Layout,
    *,
    num_sizes: int,
) -> list[str]:
    notes = []
    if not layout.has_test:
        notes.append(note_held_out(splits))
    in_test = {label for sample in splits["test"] for label in sample.labels or [sample.label]}
    untested = [name for label, name in enumerate(classes) if label not in in_test]
    if untested:
        names = ", ".join(describe((name,)) for name in untested[:10])
        num = "1 class has" if len(untested) == 1 else f"{len(untested)} classes have"
        notes.append(f"{num} no test image: {names}")
    return [*notes, *note_sizes(num_sizes)]
