"""What a data set is, in words: its kind, counts, classes, boxes and masks."""

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from redkiln.advice.wording import as_options
from redkiln.cli.view import words
from redkiln.views.dataset import DatasetProblem, DatasetView

SHOWN_CLASSES = 20
"""Classes that are named before the rest is only hinted at."""
SIZES = ("small", "medium", "large")
"""Sizes of boxes, as a data set's statistics name them."""


def skipped_words(dataset: DatasetView) -> str:
    """Return the number of skipped rows, files, or images and boxes, with its noun."""
    noun = "row" if dataset.columns else "item" if dataset.objects or dataset.masks else "file"
    return words.plural(dataset.num_skipped, noun)


def warning_line(warning: DatasetProblem, dataset: DatasetView) -> Text:
    """Return a doubt about the quality of a data set as a line."""
    message = as_options(warning.message, dataset=dataset.name)
    return Text(f"warning: {message} ({warning.code})", style="yellow")


def box_words(dataset: DatasetView) -> str | None:
    """Return how many boxes a data set has, by split and by class."""
    found = dataset.objects
    if found is None:
        return None
    totals: Counter[str] = Counter()
    for of_split in found.boxes.values():
        totals.update(of_split)
    splits = ", ".join(f"{split} {words.count(sum(of.values()))}" for split, of in
                       found.boxes.items())  # fmt: skip
    common = totals.most_common(SHOWN_CLASSES)
    shown = ", ".join(f"{name} {words.count(num)}" for name, num in common)
    more = ", …" if len(totals) > SHOWN_CLASSES else ""
    empty = sum(found.images_without.values())
    without = f"; {words.plural(empty, 'image')} without objects" if empty else ""
    crowds = f"; {words.plural(found.num_crowds, 'crowd')}, ignored" if found.num_crowds else ""
    return f"{splits}: {shown}{more}{without}{crowds}"


def size_words(dataset: DatasetView) -> str | None:
    """Return how many boxes are small, medium and large, in all and of each class."""
    if dataset.objects is None:
        return None
    sizes = dataset.objects.sizes
    totals: Counter[str] = Counter()
    for of_class in sizes.values():
        totals.update(of_class)
    small, medium, large = (words.count(totals[size]) for size in SIZES)
    total = f"{small} below 32 x 32 pixels, {medium} up to 96 x 96, {large} larger"
    common = sorted(sizes, key=lambda name: -sum(sizes[name].values()))
    shown = ", ".join(
        f"{name} {'/'.join(words.count(sizes[name].get(size, 0)) for size in SIZES)}"
        for name in common[:SHOWN_CLASSES]
    )
    more = ", …" if len(sizes) > SHOWN_CLASSES else ""
    return f"{total}: {shown}{more}" if len(sizes) > 1 else total


def mask_words(dataset: DatasetView) -> str | None:
    """Return the share of the pixels that each class has, and how many images have it."""
    found = dataset.masks
    if found is None:
        return None
    pixels: Counter[str] = Counter()
    images: Counter[str] = Counter()
    for split in found.pixels:
        pixels.update(found.pixels[split])
        images.update(found.images[split])
    ignored = sum(found.ignored.values())
    total = max(1, sum(pixels.values()) + ignored)
    shown = ", ".join(
        f"{name} {words.percent(num / total)} of the pixels, {words.plural(images[name], 'image')}"
        for name, num in pixels.most_common(SHOWN_CLASSES)
    )
    more = ", …" if len(pixels) > SHOWN_CLASSES else ""
    left = f"; {words.percent(ignored / total)} ignored" if ignored else ""
    return f"{shown}{more}{left}"


def option_words(dataset: DatasetView) -> str | None:
    """Return the options that the data set was pushed with."""
    given = [
        f"{name} {value!r}" if isinstance(value, str) else f"{name} {value}"
        for name, value in dataset.options.items()
        if name != "columns"
    ]
    given += [f"{name}={use}" for name, use in dataset.options.get("columns", {}).items()]
    return ", ".join(given) or None


def missing_words(dataset: DatasetView) -> str | None:
    """Return the words that mean a missing value."""
    if dataset.missing is None:
        return None
    return ", ".join(["empty", *map(repr, dataset.missing)])


def kind_words(dataset: DatasetView) -> str:
    """Return where the bytes of a data set are, and how many."""
    size = f", {words.size(dataset.size_bytes)}" if dataset.size_bytes is not None else ""
    place = f" at {dataset.path}" if dataset.path else ""
    return f"{dataset.kind}{place}{size}"


def count_words(dataset: DatasetView) -> str | None:
    """Return the number of samples of each split."""
    parts = [f"{split} {words.count(sum(counts.values()))}" for split, counts in
             dataset.counts.items()]  # fmt: skip
    return ", ".join(parts) or None


def class_words(dataset: DatasetView) -> str | None:
    """Return the number of classes, and the first of their names."""
    if not dataset.classes:
        return None
    shown = ", ".join(dataset.classes[:SHOWN_CLASSES])
    more = ", …" if len(dataset.classes) > SHOWN_CLASSES else ""
    return f"{len(dataset.classes)}: {shown}{more}"


def label_words(dataset: DatasetView) -> str | None:
    """Return how many labels a sample has, and how many samples each label has."""
    if dataset.mean_labels is None:
        return None
    totals: Counter[str] = Counter()
    for of_split in dataset.label_counts.values():
        totals.update(of_split)
    common = totals.most_common(SHOWN_CLASSES)
    shown = ", ".join(f"{name} {words.count(num)}" for name, num in common)
    more = ", …" if len(totals) > SHOWN_CLASSES else ""
    return f"{dataset.mean_labels:.2f} a sample on average: {shown}{more}"


def refusal_words(refused: Sequence[DatasetView]) -> str:
    """Return, in one line, which data sets are invalid, and why the newest of them is."""
    newest = refused[0]
    named = f"{newest.name} ({newest.id})"
    which = f"{named} is invalid"
    if refused[1:]:
        which = f"{len(refused)} data sets are invalid, the newest is {named}"
    reason = f": {first_reason(newest)}" if newest.errors else ""
    return f"{which}{reason}. All reasons: redkiln datasets show {newest.id}"


def unfit_words(dataset: DatasetView) -> str:
    """Return why an invalid data set cannot be trained on, for a script that still reads it."""
    return (
        f"{dataset.name} cannot be used by `redkiln train` ({first_reason(dataset)}), but the "
        f"script reads it as it was sent. All reasons: redkiln datasets show {dataset.id}"
    )


def first_reason(dataset: DatasetView) -> str:
    """Return the first reason why a data set is invalid, without what to do about it."""
    first = dataset.errors[0]
    place = f"{first.path}: " if first.path else ""
    return f"{place}{as_options(first.message).partition('; ')[0]}"
