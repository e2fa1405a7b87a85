"""The baseline of an image classifier: a linear model of edges and colours.

Shapes: N images, B images of a block, S side in pixels, C channels, F features.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from redkiln.views.comparison import IMAGE_BASELINES
from worker.export.baselines.baseline import Baseline, Fitted, Rows, Skipped, choose_rows
from worker.export.baselines.learners import fit_linear, fit_linear_labels
from worker.trainer.images.decode.decoded_set import Pixels

MOST_TRAINED = 5000
LARGEST = 128
"""Side in pixels above which images are first reduced to a half, a third, and so on."""
LEAST = 8
"""Side in pixels below which images are not reduced any more."""
MOST_PIXELS = 50_000_000
"""Most pixels of the reduced images of a split: 10 s of CPU time for 5,000 images of 100 pixels
(Xeon with AVX-512, November 2026)."""
BLOCK_PIXELS = 1_000_000
"""Pixels that are turned into features at once."""
REDUCTIONS = (2, 4)
"""How many times smaller images become before their edges are counted again, as coarse texture."""
NUM_DIRECTIONS = 9
GRID = 4
"""Parts along a side. The directions are counted in each part, and in the whole image."""
SHADES = {1: 16, 3: 4}
"""Steps of each channel, by the number of channels."""
SMALLEST = 1e-6
"""Least sum of a histogram: an image of one colour has no edges."""
LENGTH = 16.0
"""Length of a typical sample's features, which decides how strong the learner's penalty is."""


@dataclass(frozen=True)
class _Pictures:
    """The images of a data set with their targets.

    Attributes:
        pixels: (N, S, S, C) uint8.
        targets: (N,) labels, or (N, classes) 1 for each label of an image.
    """

    pixels: Pixels
    targets: NDArray[np.int64]
    num_classes: int

    def fit(self, train: Rows, test: Rows, seconds: float) -> Fitted:
        """Train a linear model; see `Baseline.fit`."""
        most = self._count_most()
        if len(test) > most:
            raise Skipped(f"{len(test):,} test images take too long")
        some, note = choose_rows(train, most=min(MOST_TRAINED, most))
        features = self._describe(some)
        mean, std = features.mean(axis=0), features.std(axis=0)
        scale = LENGTH / np.sqrt(features.shape[1]) / np.where(std > 1e-6, std, np.inf)
        known, asked = (features - mean) * scale, (self._describe(test) - mean) * scale
        targets = self.targets[some]
        if targets.ndim == 2:
            fitted = fit_linear_labels(known, targets, [asked], seconds=seconds)
        else:
            fitted = fit_linear(known, targets, [asked], seconds=seconds, classes=self.num_classes)
        return Fitted(fitted.outputs, "; ".join(filter(None, (note, fitted.note))))

    def _count_most(self) -> int:
        side: int = self.pixels.shape[1]
        return MOST_PIXELS // (side // _find_step(side)) ** 2

    def _describe(self, rows: Rows) -> NDArray[np.float32]:
        """Return features (len(rows), F), reading a part of the images at a time."""
        size = self.pixels.shape[1] ** 2
        blocks = np.array_split(rows, -(-len(rows) * size // BLOCK_PIXELS))
        return np.concatenate([describe(self.pixels[block]) for block in blocks])


def list_baselines(
    pixels: Pixels, targets: NDArray[np.int64], *, num_classes: int
) -> list[Baseline]:
    """Return the baselines of images with one class, or with several labels."""
    one, several = IMAGE_BASELINES
    name = several if targets.ndim == 2 else one
    return [Baseline(name, _Pictures(pixels, targets, num_classes).fit)]


def describe(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return how frequent each direction of edges and each colour is in images (B, S, S, C)."""
    grey = np.einsum("bxyc->bxy", images, dtype=np.float32) / images.shape[3]
    side, step = grey.shape[1], _find_step(grey.shape[1])
    times = [step, *(step * more for more in REDUCTIONS if side >= LEAST * step * more)]
    edges = [_count_edges(_reduce(grey, each)) for each in times]
    return np.concatenate([*edges, _count_colours(images[:, ::step, ::step])], axis=1)


def _find_step(side: int) -> int:
    return -(-side // LARGEST)


def _reduce(grey: NDArray[np.float32], times: int) -> NDArray[np.float32]:
    """Return the mean of each square of so many pixels; (B, S, S) -> (B, S // times, ...)."""
    side = grey.shape[1] // times
    whole = grey[:, : side * times, : side * times]
    reduced: NDArray[np.float32] = whole.reshape(-1, side, times, side, times).mean(axis=(2, 4))
    return reduced


def _count_edges(grey: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return histograms of the directions of gradients, weighted by their length.

    An edge counts for the two nearest directions, in proportion. Dark to light and light to dark
    are the same. Source: Dalal and Triggs, Histograms of Oriented Gradients, CVPR 2005.
    """
    num, side = grey.shape[:2]
    down, right = np.gradient(grey, axis=(1, 2))
    length = np.hypot(down, right)
    place = np.arctan2(down, right) * np.float32(NUM_DIRECTIONS / np.pi)
    place += NUM_DIRECTIONS * (place < 0)
    lower = place.astype(np.int32)
    upper_share = length * (place - lower)
    part = np.arange(side, dtype=np.int32) * GRID // side
    first = (np.arange(num, dtype=np.int32)[:, None, None] * GRID + part[:, None]) * GRID + part
    first *= NUM_DIRECTIONS
    shape = (num, GRID**2, NUM_DIRECTIONS)
    counts = np.zeros(shape)
    for direction, share in ((lower, length - upper_share), (lower + 1, upper_share)):
        bins = first + direction % NUM_DIRECTIONS
        counts += np.bincount(bins.ravel(), share.ravel(), counts.size).reshape(shape)
    return np.concatenate(
        [
            _root_of_shares(counts.reshape(num, -1)),
            _root_of_shares(counts.sum(axis=1)),
            np.log1p(length.mean(axis=(1, 2), keepdims=True))[:, 0],
        ],
        axis=1,
        dtype=np.float32,
    )


def _count_colours(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the histogram of colours, of which each channel has a few steps."""
    num, _, _, channels = images.shape
    shades = SHADES[channels]
    steps = images // np.uint8(256 // shades)
    size = shades**channels
    bins = np.arange(num, dtype=np.int32)[:, None, None] * size
    for channel in range(channels):
        bins = bins + steps[..., channel] * np.int32(shades**channel)
    return _root_of_shares(np.bincount(bins.ravel(), minlength=num * size).reshape(num, size))


def _root_of_shares(counts: NDArray[np.generic]) -> NDArray[np.float32]:
    """Return the square root of each share of a row's sum, so that rare ones count more."""
    total = np.maximum(counts.sum(axis=1, keepdims=True), SMALLEST)
    roots: NDArray[np.float32] = np.sqrt(counts / total, dtype=np.float32)
    return roots
