"""Finds arrays of images and of labels by their names.

IDX files are named like MNIST's (`train-images-idx3-ubyte`, `t10k-labels-idx1-ubyte`, also with a
dot, also with .gz). Arrays in an NPZ are named `x_train`, `y_train`, `x_test`, `y_test`;
`train_images`, `train_labels` and so on; or only `images` and `labels`. An NPZ may be the data set
itself, because it is a zip of .npy files, or be inside an archive.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.layout import Split
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.report import problem

NPY, NPZ = ".npy", ".npz"
_IDX = re.compile(r"(?P<stem>.*?)[-_.]?(?P<kind>images|labels)[-_.]idx[134][-_.]ubyte(\.gz)?", re.I)
_SPLITS: dict[str, Split] = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
    "t10k": "test",
    "testing": "test",
}
_KINDS: dict[str, Literal["images", "labels"]] = {
    "x": "images",
    "images": "images",
    "image": "images",
    "data": "images",
    "y": "labels",
    "labels": "labels",
    "label": "labels",
    "targets": "labels",
}


@dataclass(frozen=True)
class ArrayFile:
    """An array of the data set.

    Attributes:
        path: Path for messages; for an array in an NPZ, the NPZ's path and the array's name.
        entry: The file that is the array or contains it.
        inner: Name of the array in an NPZ that is inside an archive.
    """

    path: str
    entry: Entry
    inner: str | None = None


@dataclass(frozen=True)
class Part:
    """Images with their labels; `name` is the split's name in the file names, such as `val`."""

    split: Split
    name: str
    images: ArrayFile
    labels: ArrayFile


@dataclass
class ArraySet:
    """The arrays of a data set.

    Attributes:
        errors: Problems that make the data set invalid.
    """

    parts: list[Part] = field(default_factory=list)
    errors: list[DatasetProblem] = field(default_factory=list)


def looks_like_arrays(entries: Iterable[Entry]) -> bool:
    """Return whether any file is named like an IDX, NPZ or NPY file."""
    return any(
        _IDX.fullmatch(entry.parts[-1]) or entry.path.lower().endswith((NPY, NPZ))
        for entry in entries
    )


def arrange_arrays(files: Sequence[ArrayFile]) -> ArraySet:
    """Pair arrays of images with their labels, by split."""
    found: dict[tuple[Split, str], dict[str, ArrayFile]] = {}
    arrays = ArraySet()
    for file in files:
        place = read_name(file.path.rsplit("/", 1)[-1])
        if place is None:
            continue
        split, name, kind = place
        pair = found.setdefault((split, name), {})
        if kind in pair:
            message = (
                f"contains the same {name or 'data'} {kind} as {pair[kind].path}; keep one of them"
            )
            arrays.errors.append(problem("duplicate_array", message, file.path))
        pair[kind] = file
    for (split, name), pair in sorted(found.items()):
        if len(pair) == 2:
            arrays.parts.append(Part(split, name, pair["images"], pair["labels"]))
            continue
        ((given, file),) = pair.items()
        other = "labels" if given == "images" else "images"
        message = f"has no matching {other}; name both alike, for example x_train and y_train"
        arrays.errors.append(problem("unpaired_array", message, file.path))
    if not any(part.split == "train" for part in arrays.parts) and not arrays.errors:
        names = ", ".join(file.path for file in files[:10])
        message = (
            f"there are no training arrays ({names}); name arrays x_train, y_train, x_test and "
            "y_test, or images and labels, or name files like the IDX files of MNIST"
        )
        arrays.errors.append(problem("no_arrays", message))
    return arrays


def read_name(name: str) -> tuple[Split, str, Literal["images", "labels"]] | None:
    """Return what a name says: the split, the split's name (may be empty), images or labels."""
    if match := _IDX.fullmatch(name):
        kind: Literal["images", "labels"] = (
            "images" if "images" in match["kind"].lower() else "labels"
        )
        words = [match["stem"].lower()]
    else:
        stem = name.lower().removesuffix(NPY)
        words = [word for word in re.split(r"[-_.]", stem) if word]
        kinds = [_KINDS[word] for word in words if word in _KINDS]
        if len(kinds) != 1:
            return None
        kind = kinds[0]
        words = [word for word in words if word not in _KINDS]
    if words in ([], [""]):
        return "train", "", kind
    if len(words) == 1 and words[0] in _SPLITS:
        return _SPLITS[words[0]], words[0], kind
    return None
