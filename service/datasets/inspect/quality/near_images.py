"""Finds images that look alike, by small grey pictures of them.

Shapes: N images, D directions.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from service.datasets.inspect.quality.groups import Groups

MOST_DIFFERENCE = 1.5
"""Mean difference of two pictures, of 255, up to which images may look alike."""
MOST_LOCAL_DIFFERENCE = 16
"""Largest difference of two pixels, of 255, up to which images may look alike. With both limits, no
pair of 12,000 digits of MNIST or of 12,000 images of CIFAR-10 counts as alike."""
MOST_COARSE_DIFFERENCE = 2.5
MOST_LOCAL_COARSE_DIFFERENCE = 10
"""The same of pictures of 8 x 8, which are compared if those of 16 x 16 differ by no more than the
next two. So small images that were halved and enlarged again, which blurs them, are found. No pair
of the same images of MNIST and CIFAR-10 counts as alike; of 600 of CIFAR-10, 98 % are found if they
were resized by Pillow's bicubic filter, 99 % by Lanczos, 42 % by a bilinear and a bicubic one."""
MOST_FINE_DIFFERENCE = 4.0
MOST_LOCAL_FINE_DIFFERENCE = 24
LEAST_CONTRAST = 8.0
"""Standard deviation of a picture below which it shows too little to be compared."""
LEAST_CORRELATION = 0.75
"""Correlation of the details of two pictures, from which on images may look alike. Photos of small
objects on one plain background differ little, but their details do not correlate: of 3,356 pairs
within the other limits, 9 are above 0.75. Source: bench/results/2026-11-28-near-images.md."""
CONTRAST = 48.0
"""Standard deviation that pictures get before they are compared with equal contrast, of 255."""


@dataclass(frozen=True)
class _Limits:
    """Limits of one comparison of pictures.

    Attributes:
        local: `MOST_LOCAL_FINE_DIFFERENCE`.
        correlation: `LEAST_CORRELATION`.
    """

    local: float
    correlation: float


AS_THEY_ARE = _Limits(MOST_LOCAL_FINE_DIFFERENCE, LEAST_CORRELATION)
WITH_EQUAL_CONTRAST = _Limits(16, 0.85)
"""Stricter, because thin digits of MNIST with equal contrast are alike with the limits above. No
digits are alike with these, and of 12,000 images of CIFAR-10 one pair, which is a photo and its
brighter copy. Source: bench/results/2026-11-29-near-images-contrast.md."""
NUM_DIRECTIONS = 8
REACH = 24.0
"""Distance in each direction, in grey levels times the 16 of a picture's side, up to which pictures
are compared. A picture that is brighter by `MOST_DIFFERENCE` everywhere is 24 away at most."""
MOST_FOLLOWED = 64
"""Pictures near each other that each one is compared with, for each of five cells."""
SAMPLED = 10_000
AT_ONCE = 16_384
_STEPS = 16
"""Steps of a grey level in which the third direction is rounded."""
_CELLS = ((0, 0), (0, 1), (1, -1), (1, 0), (1, 1))
"""A cell and those after it that touch it."""


def group_alike(pictures: np.ndarray) -> np.ndarray:
    """Return a group number (N,) that images share that look alike.

    Pictures are compared as they are, then with equal brightness and contrast. They are compared if
    they are near each other in the directions in which pictures of the set vary most. Unlike single
    pixels, these hardly change when an image is compressed again.

    Args:
        pictures: (N, 256) uint8 grey pixels of the pictures.
    """
    groups = Groups(len(pictures))
    shown = np.flatnonzero(_find_contrast(pictures) >= LEAST_CONTRAST)
    if len(shown) < 2:
        return groups.numbers()
    details = _find_details(pictures)
    _join_alike(groups, pictures, details, shown, limits=AS_THEY_ARE)
    adjusted = _adjust(pictures)
    _join_alike(groups, adjusted, details, shown, limits=WITH_EQUAL_CONTRAST)
    return groups.numbers()


def _join_alike(
    groups: Groups, pictures: np.ndarray, details: np.ndarray, shown: np.ndarray, *, limits: _Limits
) -> None:
    """Join the groups of pictures that look alike.

    Args:
        groups: Groups of the pictures.
        pictures: (N, 256) uint8 grey pixels.
        details: (N, 256) int8 details of the pictures.
        shown: Numbers of the pictures that are compared.
        limits: Limits of the comparison.
    """
    for near_one, near_other in _find_near(_place(pictures, shown)):
        one, other = shown[near_one], shown[near_other]
        numbers = groups.numbers()
        is_new = numbers[one] != numbers[other]
        for a, b in _find_alike(pictures, details, one[is_new], other[is_new], limits=limits):
            groups.join(a, b)


def _adjust(pictures: np.ndarray) -> np.ndarray:
    """Return the pictures (N, 256) uint8 with equal brightness and contrast."""
    adjusted = np.empty_like(pictures)
    for start in range(0, len(pictures), AT_ONCE):
        part = pictures[start : start + AT_ONCE].astype(np.float32)
        part -= part.mean(axis=1, keepdims=True)
        part *= CONTRAST / np.maximum(part.std(axis=1, keepdims=True), 1.0)
        adjusted[start : start + AT_ONCE] = np.rint(part + 128).clip(0, 255)
    return adjusted


def _find_contrast(pictures: np.ndarray) -> np.ndarray:
    parts = (pictures[start : start + AT_ONCE] for start in range(0, len(pictures), AT_ONCE))
    return np.concatenate([part.std(axis=1, dtype=np.float32) for part in parts] or [np.empty(0)])


def _place(pictures: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """Return where pictures are (N, D) float32 in the directions in which they vary most (PCA)."""
    sample = pictures[shown[:: -(-len(shown) // SAMPLED)]].astype(np.float64)
    sample -= sample.mean(axis=0)
    _, directions = np.linalg.eigh(sample.T @ sample)
    chosen = directions[:, : -NUM_DIRECTIONS - 1 : -1].astype(np.float32)
    parts = (shown[start : start + AT_ONCE] for start in range(0, len(shown), AT_ONCE))
    return np.concatenate([pictures[part].astype(np.float32) @ chosen for part in parts])


def _find_near(places: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield pairs of rows that are within reach of each other in all directions.

    The first two directions make square cells; a cell's rows are sorted by the third direction.
    """
    cells = np.floor(places[:, :2] / REACH).astype(np.int64)
    third = np.rint(places[:, 2] * _STEPS).astype(np.int64)
    keys = _key(cells, third)
    order = np.argsort(keys, kind="stable")
    cells, third, keys = cells[order], third[order], keys[order]
    reach = int(REACH * _STEPS)
    for cell in _CELLS:
        begin = np.searchsorted(keys, _key(cells + cell, third - reach))
        end = np.searchsorted(keys, _key(cells + cell, third + reach), side="right")
        if cell == (0, 0):
            begin = np.arange(1, len(keys) + 1)
        num = np.minimum(end - begin, MOST_FOLLOWED)
        for step in range(int(num.max())):
            rows = np.flatnonzero(num > step)
            one, other = order[rows], order[begin[rows] + step]
            is_near = (np.abs(places[one] - places[other]) <= REACH).all(axis=1)
            yield one[is_near], other[is_near]


def _key(cells: np.ndarray, third: np.ndarray) -> np.ndarray:
    """Return (N,) int64 numbers that sort rows by cell, and by the third direction in a cell.

    A place is at most 255 x 16 from 0, which 10 bits hold for cells, and 18 for steps.
    """
    column, row = cells.T + 2**9
    return np.asarray((column << 30) + (row << 20) + third + 2**18)


def _find_alike(
    pictures: np.ndarray,
    details: np.ndarray,
    one: np.ndarray,
    other: np.ndarray,
    *,
    limits: _Limits,
) -> Iterator[tuple[int, int]]:
    """Yield the pairs of rows whose pictures differ little and have the same details."""
    for start in range(0, len(one), AT_ONCE):
        a, b = one[start : start + AT_ONCE], other[start : start + AT_ONCE]
        difference = pictures[a].astype(np.int16) - pictures[b]
        alike = _are_small(difference, MOST_DIFFERENCE, MOST_LOCAL_DIFFERENCE)
        fine = _are_small(difference, MOST_FINE_DIFFERENCE, limits.local)
        blurred = np.flatnonzero(fine & ~alike)
        coarse = difference[blurred].reshape(-1, 8, 2, 8, 2).mean(axis=(2, 4)).reshape(-1, 64)
        alike[blurred] = _are_small(coarse, MOST_COARSE_DIFFERENCE, MOST_LOCAL_COARSE_DIFFERENCE)
        a, b = a[alike], b[alike]
        is_copy = _correlate(details[a], details[b]) >= limits.correlation
        yield from zip(a[is_copy].tolist(), b[is_copy].tolist(), strict=True)


def _are_small(differences: np.ndarray, mean: float, most: float) -> np.ndarray:
    """Return (N,) bool, whether differences are small on average and in each place."""
    sizes = np.abs(differences)
    return np.asarray((sizes.mean(axis=1) <= mean) & (sizes.max(axis=1) <= most))


def _find_details(pictures: np.ndarray) -> np.ndarray:
    """Return how much each pixel differs from the mean of the 3 x 3 around it (N, 256) int8.

    Beyond its borders, a picture is continued with the same slope, so soft light is not a detail.
    Each row is scaled to the range of int8, because only its direction counts.
    """
    details = np.empty(pictures.shape, np.int8)
    for start in range(0, len(pictures), AT_ONCE):
        grid = pictures[start : start + AT_ONCE].reshape(-1, 16, 16).astype(np.float32)
        wider = np.pad(grid, ((0, 0), (1, 1), (1, 1)), mode="reflect", reflect_type="odd")
        rows = wider[:, :-2] + wider[:, 1:-1] + wider[:, 2:]
        sums = rows[:, :, :-2] + rows[:, :, 1:-1] + rows[:, :, 2:]
        found = (grid * 9 - sums).reshape(-1, 256)
        most = np.abs(found).max(axis=1, keepdims=True)
        details[start : start + AT_ONCE] = np.rint(found * 127 / np.maximum(most, 1))
    return details


def _correlate(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the correlation (N,) of the details of each row; 0 for a row without details."""
    one, other = one.astype(np.float32), other.astype(np.float32)
    size = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return np.asarray(np.einsum("np,np->n", one, other) / np.maximum(size, 1))
