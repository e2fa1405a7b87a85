"""Built-in data sets, created once from a library or downloaded files, kept in the cache."""

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np

from redkiln.datasets import (
    BUILTIN_IMAGES,
    BUILTIN_SEED,
    BuiltinImages,
    DatasetIndex,
    Sample,
    find_test_rows,
    rank_within_classes,
)
from redkiln.failure import FailureCode
from redkiln.predict.labelled.builtins import load_digits
from redkiln.predict.labelled.public_images import LOADERS, load_public
from worker.process.failed import TrainingFailed
from worker.trainer.images.sources.sources import BUILTIN_ARRAY

INDEX = "index.json"


def open_builtin(name: str, *, cache_dir: Path, files_dir: Path | None = None) -> Path:
    """Return the folder of a built-in set (its array and `index.json`), creating it if needed.

    Args:
        name: Name of the set, without `builtin:`.
        cache_dir: The worker's cache.
        files_dir: Folder with the downloaded files of a public set.

    Raises:
        TrainingFailed: there is no such set, or its files are missing or damaged.
    """
    if name not in BUILTIN_IMAGES:
        known = ", ".join(BUILTIN_IMAGES)
        message = f"there is no built-in data set {name!r}; use one of: {known}"
        raise TrainingFailed(FailureCode.BAD_INPUT, message)
    folder = cache_dir / "builtin" / name
    if not (folder / INDEX).exists():
        try:
            _make(name, folder, files_dir=files_dir)
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise
            message = f"the files of built-in data set {name} cannot be read: {error}"
            raise TrainingFailed(FailureCode.DATASET_UNAVAILABLE, message) from error
    return folder


def split_index(labels: list[int], *, name: str, num_train: int | None = None) -> DatasetIndex:
    """Build the index of a built-in set.

    Args:
        labels: (N,) class of each row.
        name: Name of the set, which gives its classes and shape.
        num_train: Rows before the set's own test split. None: the first tenth of each class in its
            frozen order becomes the test split.
    """
    facts = BUILTIN_IMAGES[name]
    if num_train is not None:
        return _index(
            facts,
            train=_samples(labels[:num_train], first=0),
            test=_samples(labels[num_train:], first=num_train),
            held_out_test=False,
        )
    ranks = rank_within_classes(labels, seed=BUILTIN_SEED)
    is_test = find_test_rows(labels)
    held = [0] * len(facts.classes)
    for label, taken in zip(labels, is_test, strict=True):
        held[label] += taken
    splits: dict[Literal["train", "test"], list[Sample]] = {"train": [], "test": []}
    for row, (label, rank, taken) in enumerate(zip(labels, ranks, is_test, strict=True)):
        # A rank counts from 0 within its split.
        place = rank if taken else rank - held[label]
        sample = Sample(path=str(row), label=label, rank=place)
        splits["test" if taken else "train"].append(sample)
    return _index(facts, train=splits["train"], test=splits["test"], held_out_test=True)


def _samples(labels: list[int], *, first: int) -> list[Sample]:
    ranks = rank_within_classes(labels, seed=BUILTIN_SEED)
    return [
        Sample(path=str(row), label=label, rank=rank)
        for row, (label, rank) in enumerate(zip(labels, ranks, strict=True), start=first)
    ]


def _index(
    facts: BuiltinImages, *, train: list[Sample], test: list[Sample], held_out_test: bool
) -> DatasetIndex:
    return DatasetIndex(
        classes=facts.classes,
        splits={"train": train, "test": test},
        image_size=facts.image_size,
        mixed_sizes=False,
        channels=facts.channels,
        seed=BUILTIN_SEED,
        held_out_test=held_out_test,
    )


def _make(name: str, folder: Path, *, files_dir: Path | None) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{name}-"))
    try:
        index = _write_array(name, staging / BUILTIN_ARRAY, files_dir=files_dir)
        (staging / INDEX).write_text(index.model_dump_json())
        try:
            os.rename(staging, folder)  # noqa: PTH104 - unlike replace, never onto a full folder
        except OSError:
            if not (folder / INDEX).exists():
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _write_array(name: str, path: Path, *, files_dir: Path | None) -> DatasetIndex:
    if name not in LOADERS:
        images, labels = load_digits()
        np.save(path, images)
        return split_index(labels, name=name)
    if files_dir is None:
        raise ValueError("the worker did not provide the downloaded files")
    found = load_public(name, files_dir)
    np.save(path, found.images)
    return split_index(found.labels, name=name, num_train=found.num_train)
