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
        row: in a file that is an array of images (IDX, NPY, NPZ); None for one that is an image.
        array: which array, of an NPZ.
    """

    path: str
    row: int | None = None
    array: str | None = None
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
    """A data set that the worker makes by itself, from an installed library.

    Attributes:
        num_samples: of all splits together.
        class_counts: samples of each class, in the order of `classes`; empty for regression.
    """

    name: str
    task: str
    classes: list[str] = Field(default_factory=list)
    num_samples: int
    class_counts: list[int] = Field(default_factory=list)
    description: str


class BuiltinImages(BuiltinDataset):
    """A built-in set of images.

    Attributes:
        test_counts: of each class in the set's own test split, which `class_counts` holds too;
            empty where one is held out.
    """

    image_size: tuple[int, int]
    channels: Literal[1, 3]
    test_counts: list[int] = Field(default_factory=list)


class BuiltinTable(BuiltinDataset):
    """A built-in table, all of whose columns are numbers without a gap.

    Attributes:
        columns: names of the features, in the library's order.
        target: name that the target's column is given.
    """

    columns: list[str]
    target: str


BUILTIN_IMAGES: dict[str, BuiltinImages] = {
    "digits": BuiltinImages(
        name="digits",
        task="image-classification",
        classes=[str(digit) for digit in range(10)],
        num_samples=1797,
        class_counts=[178, 182, 177, 183, 181, 182, 181, 179, 174, 180],
        image_size=(8, 8),
        channels=1,
        description="Handwritten digits, 8x8 grey, from scikit-learn (UCI optdigits).",
    ),
    "mnist": BuiltinImages(
        name="mnist",
        task="image-classification",
        classes=[str(digit) for digit in range(10)],
        num_samples=70_000,
        class_counts=[6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958],
        test_counts=[980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
        image_size=(28, 28),
        channels=1,
        description="Handwritten digits, 28x28 grey (LeCun, Cortes, Burges); the worker fetches "
        "12 MB.",
    ),
    "fashion-mnist": BuiltinImages(
        name="fashion-mnist",
        task="image-classification",
        classes=[
            "T-shirt/top",
            "Trouser",
            "Pullover",
            "Dress",
            "Coat",
            "Sandal",
            "Shirt",
            "Sneaker",
            "Bag",
            "Ankle boot",
        ],
        num_samples=70_000,
        class_counts=[7000] * 10,
        test_counts=[1000] * 10,
        image_size=(28, 28),
        channels=1,
        description="Articles of clothing, 28x28 grey (Zalando Research); the worker fetches "
        "31 MB.",
    ),
    "cifar-10": BuiltinImages(
        name="cifar-10",
        task="image-classification",
        classes=[
            "airplane",
            "automobile",
            "bird",
            "cat",
            "deer",
            "dog",
            "frog",
            "horse",
            "ship",
            "truck",
        ],
        num_samples=60_000,
        class_counts=[6000] * 10,
        test_counts=[1000] * 10,
        image_size=(32, 32),
        channels=3,
        description="Small photographs, 32x32 in colour (Krizhevsky); the worker fetches 170 MB.",
    ),
}
_MEASURED_OF_CELLS = (
    "radius",
    "texture",
    "perimeter",
    "area",
    "smoothness",
    "compactness",
    "concavity",
    "concave points",
    "symmetry",
    "fractal dimension",
)
BUILTIN_TABLES: dict[str, BuiltinTable] = {
    "breast-cancer": BuiltinTable(
        name="breast-cancer",
        task="tabular-classification",
        classes=["benign", "malignant"],
        num_samples=569,
        class_counts=[357, 212],
        columns=[
            *(f"mean {name}" for name in _MEASURED_OF_CELLS),
            *(f"{name} error" for name in _MEASURED_OF_CELLS),
            *(f"worst {name}" for name in _MEASURED_OF_CELLS),
        ],
        target="diagnosis",
        description="Cell nuclei of breast tumours, 30 measures each, from scikit-learn "
        "(UCI WDBC).",
    ),
    "wine": BuiltinTable(
        name="wine",
        task="tabular-classification",
        classes=["class_0", "class_1", "class_2"],
        num_samples=178,
        class_counts=[59, 71, 48],
        columns=[
            "alcohol",
            "malic_acid",
            "ash",
            "alcalinity_of_ash",
            "magnesium",
            "total_phenols",
            "flavanoids",
            "nonflavanoid_phenols",
            "proanthocyanins",
            "color_intensity",
            "hue",
            "od280/od315_of_diluted_wines",
            "proline",
        ],
        target="cultivar",
        description="Chemical analyses of wines of three cultivars, from scikit-learn (UCI wine).",
    ),
    "iris": BuiltinTable(
        name="iris",
        task="tabular-classification",
        classes=["setosa", "versicolor", "virginica"],
        num_samples=150,
        class_counts=[50, 50, 50],
        columns=[
            "sepal length (cm)",
            "sepal width (cm)",
            "petal length (cm)",
            "petal width (cm)",
        ],
        target="species",
        description="Sizes of the flowers of three irises, from scikit-learn (Fisher's data).",
    ),
    "diabetes": BuiltinTable(
        name="diabetes",
        task="tabular-regression",
        num_samples=442,
        columns=["age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"],
        target="progression",
        description="Progression of diabetes within a year by ten measures of the patient, from "
        "scikit-learn (Efron and others, 2004).",
    ),
}
BUILTINS: dict[str, BuiltinImages | BuiltinTable] = {**BUILTIN_IMAGES, **BUILTIN_TABLES}


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
    limits = {label: count_taken(size, fraction=fraction) for label, size in sizes.items()}
    return [rank < limits[label] for label, rank in zip(labels, ranks, strict=True)]


def count_taken(size: int, *, fraction: float) -> int:
    """How many samples of a class of this size are among the first `fraction` of it."""
    return min(size - 1, max(1, round(size * fraction))) if fraction > 0 else 0
