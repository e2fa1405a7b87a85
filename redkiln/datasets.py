"""What a data set is once it is validated: an index of samples, with its splits frozen.

The service makes the index when a set is registered; the worker reads only the files that it
names. Validation samples are the first of each class by `rank`, so any `validation_fraction` cuts
the same frozen order, and a larger fraction contains a smaller one.
"""

import random
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

TEST_FRACTION = 0.1
"""Share of each class held out for testing where the data set has no test folder."""


class Sample(BaseModel):
    """One image of an index.

    Attributes:
        path: name in the archive, or path below the folder; POSIX separators.
        label: index into `classes`.
        rank: place in the frozen random order of its class and split, from 0.
        sha256: of the file; None inside an archive, whose own digest covers it.
    """

    path: str
    label: int
    rank: int
    sha256: str | None = None


class DatasetIndex(BaseModel):
    """The samples of an image-classification data set.

    Attributes:
        image_size: (width, height) that most images have.
        channels: 1 when every image is grey, else 3.
        held_out_test: the test split was cut from the training images.
    """

    format: Literal[1] = 1
    task: Literal["image-classification"] = "image-classification"
    classes: list[str]
    splits: dict[Literal["train", "test"], list[Sample]]
    image_size: tuple[int, int]
    mixed_sizes: bool
    channels: Literal[1, 3]
    seed: int
    held_out_test: bool = False
    notes: list[str] = Field(default_factory=list)


class BuiltinDataset(BaseModel):
    """A data set that the worker makes from an installed library.

    Attributes:
        class_counts: samples of each class, in the order of `classes`.
    """

    name: str
    task: str
    classes: list[str]
    num_samples: int
    class_counts: list[int]
    image_size: tuple[int, int]
    channels: Literal[1, 3]
    description: str


BUILTINS: dict[str, BuiltinDataset] = {
    "digits": BuiltinDataset(
        name="digits",
        task="image-classification",
        classes=[str(digit) for digit in range(10)],
        num_samples=1797,
        class_counts=[178, 182, 177, 183, 181, 182, 181, 179, 174, 180],
        image_size=(8, 8),
        channels=1,
        description="Handwritten digits, 8x8 grey, from scikit-learn (UCI optdigits).",
    )
}


def rank_within_classes(labels: Sequence[int], *, seed: int) -> list[int]:
    """The frozen random place of each sample within its class, from 0.

    Args:
        labels: (N,) class index of each sample, in the index's order.
        seed: the data set's seed.
    """
    by_label: dict[int, list[int]] = {}
    for position, label in enumerate(labels):
        by_label.setdefault(label, []).append(position)
    ranks = [0] * len(labels)
    for label, positions in sorted(by_label.items()):
        # A plain generator: the order must repeat, not be secret.
        random.Random(f"{seed}:{label}").shuffle(positions)  # noqa: S311
        for rank, position in enumerate(positions):
            ranks[position] = rank
    return ranks


def take_fraction(labels: Sequence[int], ranks: Sequence[int], *, fraction: float) -> list[bool]:
    """Which samples are among the first `fraction` of their class: stratified, at least one each.

    A class of one sample keeps it (False), and a fraction of 0 takes nothing.
    """
    sizes: dict[int, int] = {}
    for label in labels:
        sizes[label] = sizes.get(label, 0) + 1
    limits = {
        label: min(size - 1, max(1, round(size * fraction))) if fraction > 0 else 0
        for label, size in sizes.items()
    }
    return [rank < limits[label] for label, rank in zip(labels, ranks, strict=True)]
