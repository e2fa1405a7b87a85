"""Lists the images of a data set by split and class."""

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from redkiln.annotations import (
    AnnotatedImage,
    AnyImageIndex,
    MaskedImage,
    parse_image_index,
)
from redkiln.datasets import DatasetIndex, ImageFile, Sample
from redkiln.nearest import suggest
from redkiln.spec.problems import SpecProblem
from redkiln.tables import IMAGE_TASKS
from redkiln.views.dataset import DatasetStatus
from service.datasets.models import Dataset
from service.errors import NotFound, Unprocessable
from service.storage import Storage

Split = Literal["train", "test"]
AnyIndex = AnyImageIndex
TASKS = ("image-classification", *IMAGE_TASKS)
"""Tasks whose data sets have an index of images."""
NOT_MIXED = "leave out `class`: `mixed` lists every class"
MOST_INDEX_BYTES = 64 * 1024**2
"""Largest index that is read for a page: about 500,000 images."""


@dataclass(frozen=True)
class Placed:
    """A sample and its position in its split."""

    position: int
    sample: ImageFile


def load_index(storage: Storage, dataset: Dataset) -> AnyIndex:
    """Return the index of a data set of images.

    Raises:
        NotFound: The set has no index of images that could be listed.
    """
    has_index = dataset.status == DatasetStatus.READY and dataset.index_sha256 is not None
    if not has_index or dataset.task not in TASKS:
        message = (
            "only the samples of uploaded images that are ready can be listed; the worker creates "
            "built-in ones"
        )
        raise NotFound(message, code="no_samples")
    if (dataset.index_bytes or 0) > MOST_INDEX_BYTES:
        raise NotFound("the data set has too many images to list them", code="no_samples")
    with storage.local_copy(str(dataset.index_sha256)) as path:
        return parse_image_index(path.read_bytes())


def name_classes(index: AnyIndex, sample: ImageFile) -> str:
    """Return the class of a sample, or its labels, or the classes of its objects or pixels."""
    names = [index.classes[label] for label in find_labels(sample)]
    if isinstance(index, DatasetIndex):
        return (index.labels_separator or "").join(names)
    return ", ".join(names) or "no objects"


def find_labels(sample: ImageFile) -> list[int]:
    """Return the labels of a sample, each once, in rising order."""
    if isinstance(sample, AnnotatedImage):
        return sorted({box.label for box in sample.boxes})
    if isinstance(sample, MaskedImage):
        return sample.labels
    if isinstance(sample, Sample) and sample.labels is not None:
        return sample.labels
    return [] if sample.label is None else [sample.label]


def choose_samples(
    index: AnyIndex,
    *,
    split: Split,
    class_name: str | None,
    after: int | None,
    limit: int,
    is_mixed: bool = False,
) -> Sequence[Placed]:
    """Return samples of a split, in the order of the index.

    Args:
        index: Index of the data set.
        split: Split to list.
        class_name: Class to list, or class of an object of the images; None for all.
        after: Position in the split of the sample to continue after.
        limit: Most samples to return.
        is_mixed: Whether to return the first sample of each class, then the second of each, and so
            on; without `class_name`.

    Raises:
        Unprocessable: There is no such class, or `is_mixed` has one of the other choices.
    """
    if is_mixed:
        if class_name is not None:
            raise Unprocessable(NOT_MIXED)
        ranked = list(_rank(index.splits.get(split, [])))
        if after is not None:
            last = next((one[:3] for one in ranked if one[2] == after), None)
            ranked = [one for one in ranked if last is not None and one[:3] > last]
        return [placed for *_, placed in heapq.nsmallest(limit, ranked, key=lambda one: one[:3])]
    if class_name is not None and class_name not in index.classes:
        message = f"there is no class {class_name!r}{suggest(class_name, index.classes)}"
        raise Unprocessable(message, errors=[SpecProblem("", "unknown_class", message)])
    label = None if class_name is None else index.classes.index(class_name)
    first = 0 if after is None else after + 1
    chosen: list[Placed] = []
    for position, sample in enumerate(index.splits.get(split, [])[first:], first):
        if label is None or label in find_labels(sample):
            chosen.append(Placed(position, sample))
            if len(chosen) == limit:
                break
    return chosen


def _rank(samples: Sequence[ImageFile]) -> Iterator[tuple[int, int, int, Placed]]:
    """Yield each sample behind its place in its class, its class, and its place in the split."""
    counts: Counter[int] = Counter()
    for position, sample in enumerate(samples):
        label = next(iter(find_labels(sample)), -1)
        yield counts[label], label, position, Placed(position, sample)
        counts[label] += 1
