"""Built-in data sets: their samples, and their test split as files.

Shapes: N samples, F features.
"""

import csv
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from redkiln.cells import label_file
from redkiln.datasets import (
    BUILTIN_IMAGES,
    BUILTIN_TABLES,
    BUILTINS,
    BuiltinImages,
    BuiltinTable,
    find_test_rows,
)
from redkiln.errors import ModelError
from redkiln.predict.labelled.public_images import load_public

PREFIX = "builtin:"
DIGITS = "datasets/data/digits.csv.gz"
"""File of the digits in the package of scikit-learn."""
LOADERS = {
    "breast-cancer": "load_breast_cancer",
    "wine": "load_wine",
    "iris": "load_iris",
    "diabetes": "load_diabetes",
}
"""Functions of `sklearn.datasets`."""


def write_test_split(named: str, folder: Path, *, files_dir: Path | None = None) -> Path:
    """Write the test split of a built-in set, and return the path to score a model on.

    Args:
        named: Name of the set, with `builtin:`.
        folder: Empty folder.
        files_dir: Folder with the downloaded files of a public set.

    Raises:
        ModelError: There is no such set, or its samples cannot be made here.
    """
    facts = BUILTINS.get(named.removeprefix(PREFIX))
    if facts is None:
        known = ", ".join(f"{PREFIX}{name}" for name in BUILTINS)
        raise ModelError(f"There is no built-in data set {named}. Use one of: {known}.")
    if isinstance(facts, BuiltinImages) and facts.name != "digits":
        if files_dir is None:
            raise ModelError(f"The files of {named} are needed to make its samples.")
        return _write_public(facts, folder, files_dir)
    if find_spec("sklearn") is None:
        raise ModelError(
            f"The samples of {named} are part of scikit-learn, which is not installed. Install it "
            "(pip install scikit-learn), or omit `--data` to check the model with the test samples "
            "in parity.npz."
        )
    return _write_table(facts, folder) if isinstance(facts, BuiltinTable) else _write_digits(folder)


def load_digits() -> tuple[NDArray[np.uint8], list[int]]:
    """Return the digits, (N, 8, 8), and their classes.

    Raises:
        OSError: Scikit-learn is not installed.
    """
    # Importing scikit-learn would take over a second.
    spec = find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise OSError("scikit-learn is not installed")
    rows = np.loadtxt(Path(spec.origin).parent / DIGITS, dtype=np.uint8, delimiter=",")
    # (N, 65): the grey levels of 8 x 8 pixels from 0 to 16, then the class.
    images = np.rint(rows[:, :-1].reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    return images, [int(label) for label in rows[:, -1]]


def load_table(facts: BuiltinTable) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return the features (N, F) and the targets (N,), which are labels of `facts.classes`."""
    # Importing scikit-learn takes over a second.
    from sklearn import datasets

    options = {"scaled": False} if facts.name == "diabetes" else {}
    bunch = getattr(datasets, LOADERS[facts.name])(**options)
    if not facts.classes:
        return bunch.data, bunch.target
    labels = [facts.classes.index(str(name)) for name in bunch.target_names]
    return bunch.data, np.array(labels)[bunch.target]


def _write_digits(folder: Path) -> Path:
    images, labels = load_digits()
    is_test = find_test_rows(labels)
    return _write_images(BUILTIN_IMAGES["digits"], folder, images, labels, is_test)


def _write_public(facts: BuiltinImages, folder: Path, files_dir: Path) -> Path:
    try:
        found = load_public(facts.name, files_dir)
    except (OSError, ValueError) as error:
        raise ModelError(f"The files of {PREFIX}{facts.name} cannot be read: {error}") from error
    is_test = np.arange(len(found.labels)) >= found.num_train
    return _write_images(facts, folder, found.images, found.labels, is_test)


def _write_images(
    facts: BuiltinImages,
    folder: Path,
    images: NDArray[np.uint8],
    labels: Sequence[int],
    is_test: Sequence[bool] | NDArray[np.bool_],
) -> Path:
    rows = []
    for place in np.flatnonzero(is_test).tolist():
        Image.fromarray(images[place]).save(folder / f"{place}.png", compress_level=1)
        rows.append([f"{place}.png", facts.classes[labels[place]]])
    _write_rows(folder / label_file.NAME, [["file", "labels"], *rows])
    return folder


def _write_table(facts: BuiltinTable, folder: Path) -> Path:
    numbers, targets = load_table(facts)
    rows = [
        [*map(str, numbers[place].tolist()), _write_target(facts, targets[place].item())]
        for place in np.flatnonzero(find_test_rows(list_strata(facts, targets))).tolist()
    ]
    path = folder / f"{facts.name}.csv"
    _write_rows(path, [[*facts.columns, facts.target], *rows])
    return path


def list_strata(facts: BuiltinTable, targets: NDArray[Any]) -> list[int]:
    """Return the class of each row, which decides the split; a regression has one."""
    labels: list[int] = targets.tolist() if facts.classes else [0] * len(targets)
    return labels


def find_target(named: str) -> str | None:
    """Return the column with the answers of a built-in table; None for images."""
    facts = BUILTIN_TABLES.get(named.removeprefix(PREFIX))
    return None if facts is None else facts.target


def _write_target(facts: BuiltinTable, value: float) -> str:
    return facts.classes[int(value)] if facts.classes else str(value)


def _write_rows(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
