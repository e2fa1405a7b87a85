"""Public data sets as arrays, from their downloaded files."""

import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.labelled.array_files import read_idx

CIFAR_SIDE = 32


@dataclass(frozen=True)
class PublicImages:
    """A set whose first rows are for training and whose remaining rows are for testing.

    Attributes:
        images: (N, H, W) or (N, H, W, 3) uint8.
        labels: Class of each row.
    """

    images: NDArray[np.uint8]
    labels: list[int]
    num_train: int


def load_idx_set(folder: Path) -> PublicImages:
    """Load the four IDX files of MNIST or a set in its format.

    Raises:
        OSError: a file is missing.
        ValueError: a file is damaged.
    """
    train, test = (read_idx(folder / f"{part}-images-idx3-ubyte.gz") for part in ("train", "t10k"))
    labels = [read_idx(folder / f"{part}-labels-idx1-ubyte.gz") for part in ("train", "t10k")]
    return PublicImages(
        np.concatenate([train, test]), np.concatenate(labels).tolist(), num_train=len(train)
    )


def load_cifar10(folder: Path) -> PublicImages:
    """Load CIFAR-10's binary version: records of one label and three planes.

    Source: https://www.cs.toronto.edu/~kriz/cifar.html

    Raises:
        OSError: the archive is missing.
        ValueError: the archive is damaged.
    """
    found: dict[str, NDArray[np.uint8]] = {}
    with tarfile.open(folder / "cifar-10-binary.tar.gz", mode="r|gz") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.name.endswith(".bin") else None
            if content is not None:
                records = np.frombuffer(content.read(), dtype=np.uint8)
                found[Path(member.name).name] = records.reshape(-1, 1 + 3 * CIFAR_SIDE**2)
    train = [found[name] for name in sorted(found) if name.startswith("data_batch")]
    if not train or "test_batch.bin" not in found:
        raise ValueError(f"{folder / 'cifar-10-binary.tar.gz'} does not contain its batches")
    records = np.concatenate([*train, found["test_batch.bin"]])
    planes = records[:, 1:].reshape(-1, 3, CIFAR_SIDE, CIFAR_SIDE)
    return PublicImages(
        np.ascontiguousarray(planes.transpose(0, 2, 3, 1)),
        records[:, 0].tolist(),
        num_train=len(records) - len(found["test_batch.bin"]),
    )


LOADERS: dict[str, Callable[[Path], PublicImages]] = {
    "mnist": load_idx_set,
    "fashion-mnist": load_idx_set,
    "cifar-10": load_cifar10,
}


def load_public(name: str, folder: Path) -> PublicImages:
    """Load a set of `LOADERS` from the folder of its files.

    Raises:
        OSError: a file is missing.
        ValueError: a file is damaged.
    """
    return LOADERS[name](folder)
