"""Built-in data sets, made once from an installed library and kept in the worker's cache."""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np

from redkiln.datasets import (
    BUILTIN_IMAGES,
    TEST_FRACTION,
    DatasetIndex,
    Sample,
    rank_within_classes,
    take_fraction,
)
from redkiln.failure import FailureCode
from worker.trainer.failed import TrainingFailed
from worker.trainer.sources import BUILTIN_ARRAY

SEED = 0
"""Seed of the frozen splits of every built-in set."""

INDEX = "index.json"


def open_builtin(name: str, *, cache_dir: Path) -> Path:
    """The folder of a built-in set (its array and `index.json`), made if it is not there.

    Raises:
        TrainingFailed: no such set.
    """
    if name not in BUILTIN_IMAGES:
        known = ", ".join(BUILTIN_IMAGES)
        message = f"no built-in data set {name!r}; known: {known}"
        raise TrainingFailed(FailureCode.BAD_INPUT, message)
    folder = cache_dir / "builtin" / name
    if not (folder / INDEX).exists():
        _make(name, folder)
    return folder


def split_index(labels: list[int], *, name: str) -> DatasetIndex:
    """The index of a built-in set: the first tenth of each class in its frozen order is tested on.

    Args:
        labels: (N,) class of each row.
        name: which set, for its classes and shape.
    """
    facts = BUILTIN_IMAGES[name]
    ranks = rank_within_classes(labels, seed=SEED)
    is_test = take_fraction(labels, ranks, fraction=TEST_FRACTION)
    held = [0] * len(facts.classes)
    for label, taken in zip(labels, is_test, strict=True):
        held[label] += taken
    splits: dict[str, list[Sample]] = {"train": [], "test": []}
    for row, (label, rank, taken) in enumerate(zip(labels, ranks, is_test, strict=True)):
        # A rank counts from 0 within its split.
        place = rank if taken else rank - held[label]
        sample = Sample(path=str(row), label=label, rank=place)
        splits["test" if taken else "train"].append(sample)
    return DatasetIndex(
        classes=facts.classes,
        splits={"train": splits["train"], "test": splits["test"]},
        image_size=facts.image_size,
        mixed_sizes=False,
        channels=facts.channels,
        seed=SEED,
        held_out_test=True,
    )


def _make(name: str, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{name}-"))
    try:
        images, labels = _load_digits()
        np.save(staging / BUILTIN_ARRAY, images)
        (staging / INDEX).write_text(split_index(labels, name=name).model_dump_json())
        try:
            os.rename(staging, folder)  # noqa: PTH104 - unlike replace, never onto a full folder
        except OSError:
            if not (folder / INDEX).exists():
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _load_digits() -> tuple[np.ndarray, list[int]]:
    # Importing scikit-learn takes over a second, once per cache.
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)  # (N, 8, 8), from 0..16
    return images, [int(label) for label in bunch.target]
