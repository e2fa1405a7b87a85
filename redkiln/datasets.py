"""The index of a validated data set: its samples and frozen splits.

The service creates the index when a set is registered; the worker reads only the files that it
lists. Validation samples are the first of each class by `rank`, so every `validation_fraction`
cuts the same frozen order, and a larger fraction contains a smaller one.
"""

import hashlib
import os
import random
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, Field

IMAGE_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
"""Pillow's names of the accepted formats. No other decoder is used on the bytes of users."""
_WANTED = "JPEG, PNG, WebP, GIF, BMP or TIFF"
_OTHERS = {b"%PDF": "PDF", b"SIMPLE": "FITS", b"<svg": "SVG"}
_LATER_OTHERS = {b"ftypheic": "HEIC", b"ftypmif1": "HEIF", b"ftypavif": "AVIF"}
"""Formats by their bytes from the fifth on."""
BUILTIN_SEED = 0
"""Seed of the frozen splits of every built-in set."""
TEST_FRACTION = 0.1
"""Fraction of each class held out for testing if the data set has no test folder."""
BACKGROUND = -1
"""Stratum of the images without a class."""


def name_unreadable(content: bytes) -> str:
    """Return what a file is that is not an image of an accepted format, and what to do."""
    if not content:
        return "is empty"
    starts = (name for magic, name in _OTHERS.items() if content.startswith(magic))
    if other := next(starts, _LATER_OTHERS.get(content[4:12])):
        return f"is a {other} file; convert it to {_WANTED}"
    return f"is not a {_WANTED} image"


class ImageFile(BaseModel):
    """One image of an index, whatever is known about it.

    Attributes:
        path: Name in the archive, or path below the folder; with POSIX separators.
        rank: Position in the frozen random order of its class and split, from 0.
        sha256: Digest of the file; None inside an archive, which has a digest itself.
        row: Row in a file that holds an array of images (IDX, NPY, NPZ); None for an image file.
        array: Name of the array in an NPZ.
        label: Index into `classes` that decides the split; None without a class.
    """

    path: str
    row: int | None = None
    array: str | None = None
    label: int | None = None
    rank: int
    sha256: str | None = None

    @property
    def stratum(self) -> int:
        """The group of its split within which `rank` counts: the label, or `BACKGROUND`."""
        return BACKGROUND if self.label is None else self.label


class Sample(ImageFile):
    """One image of an index for classification.

    Attributes:
        label: Index into `classes`; with several labels the rarest one, which decides the split.
        labels: All labels in rising order, if an image can have several.
    """

    label: int
    labels: list[int] | None = None


class ImageIndex(BaseModel):
    """The images of a data set, whatever is known about each.

    Attributes:
        splits: Images of each split; those of the set's own validation split end `train`.
        image_size: (width, height) of most images.
        channels: 1 if every image is grey, else 3.
        num_validation: The last samples of the training split that are the set's own validation
            split; 0 if jobs take one from the training samples.
        held_out_test: Whether the test split was cut from the training images.
    """

    classes: list[str]
    splits: Mapping[Literal["train", "test"], Sequence[ImageFile]]
    image_size: tuple[int, int]
    mixed_sizes: bool
    channels: Literal[1, 3]
    seed: int
    num_validation: int = 0
    held_out_test: bool = False
    notes: list[str] = Field(default_factory=list)


class DatasetIndex(ImageIndex):
    """The samples of an image-classification data set.

    Attributes:
        labels_separator: Separator of an image's labels in `labels.csv`; None if each image has one
            class. A set with several labels an image has format 2, so that an older worker refuses
            it.
    """

    format: Literal[1, 2] = 1
    task: Literal["image-classification"] = "image-classification"
    splits: dict[Literal["train", "test"], list[Sample]]
    labels_separator: str | None = None


class BuiltinDataset(BaseModel):
    """A data set that the worker creates itself, from an installed library or by download.

    Attributes:
        num_samples: Samples of all splits together.
        class_counts: Samples of each class, in the order of `classes`; empty for regression.
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
        test_counts: Samples of each class in the set's own test split, which `class_counts`
            includes; empty if a test split is held out.
    """

    image_size: tuple[int, int]
    channels: Literal[1, 3]
    test_counts: list[int] = Field(default_factory=list)


class BuiltinTable(BuiltinDataset):
    """A built-in table; all columns are numbers and none are missing.

    Attributes:
        columns: Names of the features, in the library's order.
        target: Name of the target column.
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
        description="Handwritten digits, 28x28 grey (LeCun, Cortes, Burges); the worker downloads "
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
        description="Articles of clothing, 28x28 grey (Zalando Research); the worker downloads "
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
        description="Small photographs, 32x32 colour (Krizhevsky); the worker downloads 170 MB.",
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
        description="Cell nuclei of breast tumours, 30 measurements each, from scikit-learn "
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
        description="Sizes of the flowers of three iris species, from scikit-learn (Fisher's "
        "data).",
    ),
    "diabetes": BuiltinTable(
        name="diabetes",
        task="tabular-regression",
        num_samples=442,
        columns=["age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"],
        target="progression",
        description="Progression of diabetes within a year, from ten measurements of the patient, "
        "from scikit-learn (Efron and others, 2004).",
    ),
}
BUILTINS: dict[str, BuiltinImages | BuiltinTable] = {**BUILTIN_IMAGES, **BUILTIN_TABLES}


def rank_within_classes(labels: Sequence[int], *, seed: int) -> list[int]:
    """Return the frozen random position of each sample within its class, from 0.

    Args:
        labels: (N,) class index of each sample, in the index's order.
        seed: Seed of the data set.
    """
    by_label: dict[int, list[int]] = {}
    for position, label in enumerate(labels):
        by_label.setdefault(label, []).append(position)
    ranks = [0] * len(labels)
    for label, positions in sorted(by_label.items()):
        # Not a secure generator: the order must be reproducible, not secret.
        random.Random(f"{seed}:{label}").shuffle(positions)  # noqa: S311
        for rank, position in enumerate(positions):
            ranks[position] = rank
    return ranks


def take_fraction(labels: Sequence[int], ranks: Sequence[int], *, fraction: float) -> list[bool]:
    """Return whether each sample is in the first `fraction` of its class, at least one a class.

    A class with only one sample keeps it (False), and a fraction of 0 takes nothing.
    """
    sizes: dict[int, int] = {}
    for label in labels:
        sizes[label] = sizes.get(label, 0) + 1
    limits = {label: count_taken(size, fraction=fraction) for label, size in sizes.items()}
    return [rank < limits[label] for label, rank in zip(labels, ranks, strict=True)]


def find_test_rows(labels: Sequence[int]) -> list[bool]:
    """Return which samples of a built-in set without an own test split are its test split.

    Args:
        labels: (N,) class of each sample; all are equal for a regression.
    """
    ranks = rank_within_classes(labels, seed=BUILTIN_SEED)
    return take_fraction(labels, ranks, fraction=TEST_FRACTION)


def count_taken(size: int, *, fraction: float) -> int:
    """Return how many samples of a class of this size are in its first `fraction`."""
    return min(size - 1, max(1, round(size * fraction))) if fraction > 0 else 0


def stamp_folder(folder_fd: int) -> str:
    """Return a digest of the names, sizes and modification times of all files below a folder.

    It shows that files have changed since they were validated, without reading them. Names that
    begin with a dot do not count. Links are not followed, and their own times count.

    Args:
        folder_fd: Descriptor of the folder.

    Raises:
        OSError: The folder cannot be read, or a file vanished meanwhile.
    """
    files: list[tuple[str, int, int]] = []
    for folder, folders, names, place in os.fwalk(".", dir_fd=folder_fd, follow_symlinks=False):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                status = os.stat(name, dir_fd=place, follow_symlinks=False)
                files.append((f"{folder}/{name}", status.st_size, status.st_mtime_ns))
    return hashlib.sha256(repr(sorted(files)).encode(errors="surrogateescape")).hexdigest()
