"""Finds images that are copies of each other, by their pixels or by how they look.

Shapes: N images.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from redkiln.datasets import DatasetIndex, ImageFile, ImageIndex, Sample
from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.look import HEIGHT, WIDTH, ArrayLook, Look
from service.datasets.inspect.quality.copies import Samples, check_copies
from service.datasets.inspect.quality.groups import Groups
from service.datasets.inspect.report import show

MOST_DIFFERENCE = 2.0
MOST_FINE_DIFFERENCE = 1.5
"""Mean difference of small and of finer pictures, of 255, up to which images look alike. One pair
of 12,000 digits of MNIST passes although it differs, and none of 12,000 images of CIFAR-10."""
LEAST_CONTRAST = 8.0
"""Standard deviation of a small picture below which it shows too little to be compared."""
MOST_COMPARED = 500_000
"""Images that are compared by how they look, which takes about a second for 60,000 of them."""
BANDS = 4
NEIGHBOURS = 8
"""Pictures with an equal band of bits that each one is compared with."""


def check_images(index: ImageIndex, looks: Mapping[str, Look]) -> list[DatasetProblem]:
    """Return warnings about copies in a set of images.

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
    )
    exact = group_exactly([looks[path] for path in paths])
    firsts = _find_firsts(exact)
    chosen = [looks[paths[row]] for row in firsts]
    alike = group_alike(
        _as_rows([look.small for look in chosen]), _as_rows([look.fine for look in chosen])
    )
    return [*check_copies(samples, exact), *_check_near(samples.pick(firsts), alike)]


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
    )
    places = [(looks[sample.path, sample.array], sample.row) for sample in rows]
    exact = np.array([look.digests[row] for look, row in places], np.int64)
    firsts = _find_firsts(exact)
    chosen = [places[place] for place in firsts]
    alike = group_alike(
        np.stack([look.small[row] for look, row in chosen]),
        np.stack([look.fine[row] for look, row in chosen]),
    )
    return [*check_copies(samples, exact), *_check_near(samples.pick(firsts), alike)]


def group_exactly(looks: list[Look]) -> np.ndarray:
    """Return a group number (N,) that images with equal pixels share."""
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(look.digest, len(numbers)) for look in looks], np.int64)


def group_alike(small: np.ndarray, fine: np.ndarray) -> np.ndarray:
    """Return a group number (N,) that images share that look alike.

    Candidates agree in a quarter of the bits that say whether a pixel is darker than the next one;
    each is compared with the candidates that follow it when all are sorted.

    Args:
        small: (N, 72) uint8 grey pixels of the small pictures, which find the candidates.
        fine: (N, 256) uint8 grey pixels of the finer pictures, which decide.
    """
    groups = Groups(len(small))
    if len(small) < 2:
        return groups.numbers()
    shown = small.reshape(-1, HEIGHT, WIDTH)
    bits = (shown[:, :, 1:] > shown[:, :, :-1]).reshape(len(small), BANDS, -1)
    weights = 1 << np.arange(bits.shape[2])
    has_contrast = small.std(axis=1) >= LEAST_CONTRAST
    for band in range(BANDS):
        keys = bits[:, band] @ weights
        order = np.lexsort((small.sum(axis=1, dtype=np.int64), keys))
        for step in range(1, NEIGHBOURS + 1):
            one, other = order[:-step], order[step:]
            near = (keys[one] == keys[other]) & has_contrast[one] & has_contrast[other]
            one, other = one[near], other[near]
            one, other = _keep_alike(small, one, other, most=MOST_DIFFERENCE)
            one, other = _keep_alike(fine, one, other, most=MOST_FINE_DIFFERENCE)
            for a, b in zip(one.tolist(), other.tolist(), strict=True):
                groups.join(a, b)
    return groups.numbers()


def _keep_alike(
    pictures: np.ndarray, one: np.ndarray, other: np.ndarray, *, most: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of rows whose pictures differ by at most this much on average."""
    difference = pictures[one].astype(np.int16) - pictures[other]
    alike = np.abs(difference).mean(axis=1) <= most
    return one[alike], other[alike]


def _as_rows(pictures: list[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(pictures), np.uint8).reshape(len(pictures), -1)
