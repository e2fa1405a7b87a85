"""Finds splits and classes in the names of a data set.

Supported are `train/<class>/*` with or without `test/<class>/*`, and `<class>/*`, also inside outer
folders. Images deeper inside a class folder belong to that class. `train` and `test` (in upper or
lower case) are splits only if they contain folders: `train` can be a class, too (the vehicle).
`val` next to `train` is the validation split of every job.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from service.datasets.inspect.listing import Parts, split_path

Split = Literal["train", "validation", "test"]

HELD_SPLITS: tuple[Split, ...] = ("validation", "test")
"""Splits that are not trained on."""
SPLITS: dict[str, Split] = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "validation",
}
_TRAIN = {"train", "training"}
_MAX_OUTER = 4


@dataclass(frozen=True, slots=True)
class Member:
    """A file in a class folder; `position` is its index in the list of files.

    `labels` are all of its labels, if it can have several.
    """

    position: int
    split: Split
    class_name: str
    labels: tuple[str, ...] = ()


@dataclass
class Layout:
    """Which file belongs to which split and class.

    Attributes:
        class_folders: Folders of each (split, class), with or without files.
        outside: Positions of files that are not in a class folder.
        has_test: Whether there is a test folder with classes.
    """

    members: list[Member] = field(default_factory=list)
    class_folders: dict[tuple[Split, str], list[Parts]] = field(default_factory=dict)
    outside: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    has_test: bool = False


def arrange(files: Sequence[str], folders: Iterable[Parts]) -> Layout:
    """Find the layout of a data set.

    Args:
        files: Paths of the files.
        folders: Paths of further folders, which may be empty.
    """
    # There are far fewer folders than files, so each is split only once.
    all_folders = _close_over_parents(files, folders)
    outer = _find_outer(all_folders)
    splits = _find_splits(outer, all_folders)
    return _assign(files, all_folders, outer=outer, splits=splits)


def _close_over_parents(files: Sequence[str], folders: Iterable[Parts]) -> set[Parts]:
    found = {parts[:end] for parts in folders for end in range(1, len(parts) + 1)}
    for folder in {_folder_of(path) for path in files}:
        parent = split_path(folder)
        while parent and parent not in found:
            found.add(parent)
            parent = parent[:-1]
    return found


def _find_outer(folders: set[Parts]) -> Parts:
    """Return the folder with the splits or classes: descend through single outer folders."""
    children: dict[Parts, list[Parts]] = {}
    for folder in folders:
        children.setdefault(folder[:-1], []).append(folder)
    outer: Parts = ()
    for _ in range(_MAX_OUTER):
        below = children.get(outer, [])
        is_outer = len(below) == 1 and below[0] in children
        if not is_outer or below[0][-1].casefold() in _TRAIN:
            break
        outer = below[0]
    return outer


def _find_splits(outer: Parts, folders: set[Parts]) -> dict[Parts, Split]:
    """Return the split folders; none if the classes are directly in `outer`."""
    depth = len(outer)
    parents = {folder[: depth + 1] for folder in folders if len(folder) == depth + 2}
    named = {
        folder: SPLITS[folder[depth].casefold()]
        for folder in sorted(folders)
        if len(folder) == depth + 1
        and folder[:depth] == outer
        and folder[depth].casefold() in SPLITS
        and folder in parents
    }
    has_train = any(folder[depth].casefold() in _TRAIN for folder in named)
    return named if has_train else {}


def _assign(
    files: Sequence[str], folders: set[Parts], *, outer: Parts, splits: dict[Parts, Split]
) -> Layout:
    layout = Layout()
    depth = len(outer) + (1 if splits else 0)

    def find_class(parts: Parts) -> tuple[Split, str] | None:
        if len(parts) <= depth or parts[: len(outer)] != outer:
            return None
        if not splits:
            return "train", parts[depth]
        split = splits.get(parts[:depth])
        return None if split is None else (split, parts[depth])

    for folder in sorted(folders):
        key = find_class(folder)
        if key is not None and len(folder) == depth + 1:
            layout.class_folders.setdefault(key, []).append(folder)
    keys: dict[str, tuple[Split, str] | None] = {}
    for position, path in enumerate(files):
        own = _folder_of(path)
        if own not in keys:
            keys[own] = find_class(split_path(own))
        key = keys[own]
        if key is None:
            layout.outside.append(position)
            continue
        layout.members.append(Member(position, *key))
    layout.has_test = any(split == "test" for split, _ in layout.class_folders)
    if outer:
        layout.notes.insert(0, f"the class folders are in {'/'.join(outer)}/")
    return layout


def _folder_of(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return folder if name not in ("", ".") else "/".join(split_path(path)[:-1])
