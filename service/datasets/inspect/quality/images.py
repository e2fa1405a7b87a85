"""Finds images that are copies of each other, by their pixels or by how they look.

Shapes: N images.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from redkiln.datasets import DatasetIndex, ImageFile, ImageIndex, Sample
from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.look import ArrayLook, Look
from service.datasets.inspect.quality.copies import Samples, check_copies
from service.datasets.inspect.quality.near_images import group_alike
from service.datasets.inspect.report import problem, show

MOST_COMPARED = 500_000
"""Images that are compared by how they look: 100,000 take about 6 s of processor time."""

_BYTE_BITS = 8
_DARK_BITS = 12
"""Images with 16 bits a pixel are nearly black if their values need at most 12, as of many
cameras of microscopes and X-rays."""


def check_images(index: ImageIndex, looks: Mapping[str, Look]) -> list[DatasetProblem]:
    """Return warnings about copies in a set of images, and about images that are too dark.

    Args:
        index: Index of the set.
        looks: Look of each image by its path in the index.
    """
    listed = [(split, sample) for split, sample in _list(index) if sample.path in looks]
    paths = [sample.path for _, sample in listed]
    samples = Samples(
        noun="images",
        is_test=_are_in("test", listed),
        is_validation=_are_in("validation", listed) if index.num_validation else None,
        labels=_number_all([sample for _, sample in listed]),
        name=lambda row: show(paths[row]),
        name_label=lambda row: _name_labels(listed[row][1], index.classes),
        is_drawn=index.held_out_test,
    )
    exact = group_exactly([looks[path] for path in paths])
    firsts = _find_firsts(exact)
    chosen = [looks[paths[row]] for row in firsts]
    alike = group_alike(_as_rows([look.picture for look in chosen]))
    return [
        *_check_depth([look.peak for look in looks.values() if look.peak is not None]),
        *check_copies(samples, exact),
        *_check_near(samples.pick(firsts), alike),
    ]


def _check_depth(peaks: Sequence[int]) -> list[DatasetProblem]:
    """Return a warning if images with 16 bits use only the lowest values.

    Args:
        peaks: The largest value of each image with 16 bits.
    """
    num_bits = max(_BYTE_BITS, max(peaks, default=0).bit_length())
    if not peaks or num_bits > _DARK_BITS:
        return []
    is_one = len(peaks) == 1
    images = "the only image" if is_one else f"all {len(peaks):,} images"
    message = (
        f"{images} with 16 bits a pixel {'has' if is_one else 'have'} only values below "
        f"{2**num_bits:,} of 65,536, which are nearly black to the model; multiply the values by "
        f"{2 ** (16 - num_bits)} and push the images again"
    )
    return [problem("dark_16_bit", message)]


def _find_firsts(exact: np.ndarray) -> np.ndarray:
    """Return a row of each group: one is enough to find images that only look alike."""
    return np.unique(exact, return_index=True)[1][:MOST_COMPARED]


def _check_near(samples: Samples, alike: np.ndarray) -> list[DatasetProblem]:
    return check_copies(samples, alike, words="nearly equal to", code="near_copies")


def _list(index: ImageIndex) -> list[tuple[str, ImageFile]]:
    """Return all samples with their splits; an own validation split is the end of `train`."""
    first = len(index.splits["train"]) - index.num_validation
    return [
        ("validation" if split == "train" and place >= first else split, sample)
        for split, found in index.splits.items()
        for place, sample in enumerate(found)
    ]


def _are_in(split: str, listed: Sequence[tuple[str, ImageFile]]) -> np.ndarray:
    return np.array([found == split for found, _ in listed], bool)


def _number_all(samples: Sequence[ImageFile]) -> np.ndarray | None:
    """Return a number (N,) for the labels of each image; None if images have boxes instead."""
    labelled = [sample for sample in samples if isinstance(sample, Sample)]
    if len(labelled) < len(samples):
        return None
    return np.array([_number_labels(sample) for sample in labelled], np.int64)


def _name_labels(sample: ImageFile, classes: Sequence[str]) -> str:
    """Return the class, or the labels, of an image."""
    assert isinstance(sample, Sample), "only images with labels are compared by them"
    labels = [sample.label] if sample.labels is None else sample.labels
    return ", ".join(show(classes[label]) for label in labels if label is not None) or "no label"


def _number_labels(sample: Sample) -> int:
    """Return a number that images with the same class, or the same labels, share."""
    return sample.label if sample.labels is None else hash(tuple(sample.labels))


def check_rows(
    index: DatasetIndex, looks: Mapping[tuple[str, str | None], ArrayLook]
) -> list[DatasetProblem]:
    """Return warnings about copies in arrays of images.

    Args:
        index: Index of the set.
        looks: Look of the images of each array, by the path of the file and the array's name in it.
    """
    listed = _list(index)
    rows = [sample for _, sample in listed]
    samples = Samples(
        noun="images",
        is_test=_are_in("test", listed),
        is_validation=_are_in("validation", listed) if index.num_validation else None,
        labels=np.array([sample.label for sample in rows], np.int64),
        name_label=lambda place: _name_labels(rows[place], index.classes),
        name=lambda place: f"{show(rows[place].array or rows[place].path)}[{rows[place].row}]",
        is_drawn=index.held_out_test,
    )
    places = [(looks[sample.path, sample.array], sample.row) for sample in rows]
    exact = np.array([look.digests[row] for look, row in places], np.int64)
    firsts = _find_firsts(exact)
    chosen = [places[place] for place in firsts]
    alike = group_alike(np.stack([look.pictures[row] for look, row in chosen]))
    return [*check_copies(samples, exact), *_check_near(samples.pick(firsts), alike)]


def group_exactly(looks: Sequence[Look | None]) -> np.ndarray:
    """Return a group number (N,) that images with equal pixels share."""
    firsts: dict[bytes, int] = {}
    found = [
        row if look is None else firsts.setdefault(look.digest, row)
        for row, look in enumerate(looks)
    ]
    return np.array(found, np.int64)


def _as_rows(pictures: list[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(pictures), np.uint8).reshape(len(pictures), -1)
