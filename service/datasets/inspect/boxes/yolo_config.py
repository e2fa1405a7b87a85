"""Reads what names YOLO's classes and splits: `data.yaml`, or a list of names."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from service.datasets.inspect.boxes.files import ImageFiles
from service.datasets.inspect.boxes.text import (
    MAX_YAML_BYTES,
    BadText,
    parse_yaml,
    read_bytes,
    read_text,
)
from service.datasets.inspect.layout import Split
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.listing import Entry, Parts
from service.datasets.inspect.report import Refused, refuse, show
from service.datasets.inspect.source import Source

_SPLITS: dict[str, Split] = {"train": "train", "val": "validation", "test": "test"}


@dataclass
class YoloConfig:
    """Classes by number, and which images belong to which split.

    Attributes:
        folders: Split of all images below a folder.
        listed: Split of images that are listed one by one, by their path.
        has_key_points: Whether key points follow each box.
    """

    classes: list[str] = field(default_factory=list)
    folders: dict[Parts, Split] = field(default_factory=dict)
    listed: dict[Parts, Split] = field(default_factory=dict)
    has_key_points: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def has_splits(self) -> bool:
        """Whether the splits are named here, so that names of folders do not count."""
        return bool(self.folders or self.listed)

    def find_split(self, parts: Parts) -> Split | None:
        """Return the split of an image."""
        if parts in self.listed:
            return self.listed[parts]
        ends = range(len(parts) - 1, -1, -1)
        return next(
            (self.folders[parts[:end]] for end in ends if parts[:end] in self.folders), None
        )


def read_config(
    source: Source,
    config: Entry | None,
    names: Entry | None,
    images: ImageFiles,
    *,
    limits: Limits,
) -> YoloConfig:
    """Read `data.yaml`, or else a list of names with one class a line.

    Raises:
        Refused: It cannot be read, or is not of this form.
    """
    try:
        if config is not None:
            content = read_bytes(source, config, max_bytes=MAX_YAML_BYTES, limits=limits)
            return _Yaml(source, config, images, limits).read(parse_yaml(content, config.path))
        if names is not None:
            text = read_text(source, names, limits=limits)
            classes = [line.strip() for line in text.splitlines() if line.strip()]
            return YoloConfig(_check_classes(classes, names, limits=limits))
    except BadText as bad:
        raise refuse("bad_data_yaml", bad.message, bad.place) from None
    return YoloConfig()


class _Yaml:
    """Reads one `data.yaml`."""

    def __init__(self, source: Source, entry: Entry, images: ImageFiles, limits: Limits) -> None:
        self._source = source
        self._entry = entry
        self._images = images
        self._limits = limits

    def read(self, content: Any) -> YoloConfig:
        """Return classes and splits."""
        if not isinstance(content, dict):
            raise self._refuse("needs `names` and the folders `train` and `val`")
        classes = _check_classes(self._read_names(content), self._entry, limits=self._limits)
        num = content.get("nc")
        if isinstance(num, int) and num != len(classes):
            raise self._refuse(f"has nc: {num}, but {len(classes)} names; correct one of them")
        config = YoloConfig(classes, has_key_points="kpt_shape" in content)
        for key, split in reversed(_SPLITS.items()):
            self._add_split(config, content, key, split)
        if not config.has_splits:
            config.notes.append(
                f"the folders of images that {self._entry.path} lists do not exist, so the names "
                "of folders decide the splits"
            )
        return config

    def _read_names(self, content: dict[Any, Any]) -> list[str]:
        names = content.get("names")
        if isinstance(names, list):
            return [str(name) for name in names]
        if isinstance(names, dict):
            if sorted(names, key=str) != sorted(range(len(names)), key=str):
                raise self._refuse(
                    f"must number its `names` from 0 to {len(names) - 1}, without gaps"
                )
            return [str(names[number]) for number in range(len(names))]
        raise self._refuse("needs `names`: a list of the classes, or their numbers and names")

    def _add_split(
        self, config: YoloConfig, content: dict[Any, Any], key: str, split: Split
    ) -> None:
        given = content.get(key)
        root = str(content.get("path") or "")
        for item in given if isinstance(given, list) else [given]:
            if not isinstance(item, str) or not item:
                continue
            if item.endswith(".txt"):
                config.listed.update(dict.fromkeys(self._read_list(root, item), split))
            elif (folder := self._find_folder(root, item)) is not None:
                config.folders[folder] = split

    def _find_folder(self, root: str, item: str) -> Parts | None:
        """Return the folder that an entry means; exports are careless about where it starts."""
        known = self._images.folders
        return next((folder for folder in self._candidates(root, item) if folder in known), None)

    def _candidates(self, root: str, item: str) -> list[Parts]:
        base = self._entry.parts[:-1]
        plain = tuple(part for part in item.split("/") if part not in ("", ".", ".."))
        written = [_join(base, f"{root}/{item}"), _join(base, item), (*base, *plain)]
        return [parts for parts in written if parts is not None]

    def _read_list(self, root: str, item: str) -> list[Parts]:
        """Return the images that a list of paths names."""
        by_parts = {entry.parts: entry for entry in self._images.files}
        entry = next(
            (by_parts[place] for place in self._candidates(root, item) if place in by_parts), None
        )
        if entry is None:
            raise self._refuse(f"names {show(item)}, which is not in the data set")
        folder = entry.parts[:-1]
        lines = read_text(self._source, entry, limits=self._limits).splitlines()
        found = (self._images.find(line.strip(), folder=folder, split=None) for line in lines)
        return [self._images.files[place].parts for place in found if place is not None]

    def _refuse(self, message: str) -> Refused:
        return refuse("bad_data_yaml", message, self._entry.path)


def _join(base: Parts, path: str) -> Parts | None:
    """Return a path below a folder with `..` resolved; None if it leads out of the data set."""
    parts = list(base)
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return tuple(parts)


def _check_classes(classes: Sequence[str], entry: Entry, *, limits: Limits) -> list[str]:
    if not classes or len(classes) > limits.max_classes:
        message = f"has {len(classes)} classes; 1 to {limits.max_classes} are allowed"
        raise refuse("too_many_classes" if classes else "no_classes", message, entry.path)
    double = next((name for name, num in Counter(classes).items() if num > 1), None)
    if double is not None:
        message = f"has the class {show(double)} twice; give each number its own name"
        raise refuse("duplicate_class", message, entry.path)
    return list(classes)
