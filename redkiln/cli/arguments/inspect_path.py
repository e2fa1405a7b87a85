"""Checks a path that the user wants to train on before anything is uploaded.

The service examines every file. This looks at names only, so that a wrong folder is refused at
once with a message that fits it.
"""

import difflib
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from redkiln.advice.hidden import IMAGE_SUFFIXES
from redkiln.cli.problems import UsageError
from redkiln.cli.view import words
from redkiln.client.packing import open_package
from redkiln.datasets import BUILTIN_IMAGES, BUILTIN_TABLES
from redkiln.tables import find_file_type

SPEC_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
LABEL_SUFFIXES = frozenset({".csv", ".json", ".txt", ".xml"})
"""Files that may say what the images next to them show; the service reads them."""
LOOKED_AT = 20_000
"""Files whose names are looked at, at most."""

ACCEPTED = f"""These can be trained on:
  PATH/<class>/*.png           images, one folder a class (or a zip or tar)
  PATH/train/<class>/*.png     the same with your own split;
  PATH/test/<class>/*.png      the test split is optional
  PATH/labels.csv and images   a row `file,labels` for each image; for several
                               labels: `beach.jpg,beach;sunset`
  images with boxes            COCO, YOLO, VOC or LabelMe
  tables                       CSV, TSV, JSON lines or Parquet, plain or .gz; or
                               a folder or archive with train.* and test.*
  {", ".join(f"builtin:{name}" for name in BUILTIN_IMAGES)},
  {", ".join(f"builtin:{name}" for name in BUILTIN_TABLES)}"""


def check_path(path: Path) -> None:
    """Refuse a path that cannot be a data set.

    Raises:
        UsageError: The path cannot be trained on; the message describes it.
        PackingError: The file is not a zip, tar or table, or cannot be read.
    """
    if not path.exists():
        missing = f"There is no file, folder or pushed data set {path}"
        if near := _find_near(path):
            raise UsageError(f"{missing}{near}")
        raise UsageError(f"{missing}.\n{ACCEPTED}")
    if path.is_dir():
        problem = judge_folder(path)
        if problem:
            raise UsageError(f"{path} {problem}\n{ACCEPTED}")
    elif path.suffix.lower() in SPEC_SUFFIXES:
        raise UsageError(f"{path} is a spec, not data. Submit it: redkiln submit {path} --watch")
    else:
        open_package(path)


def judge_folder(path: Path) -> str:
    """Return why a folder is not a data set, as a predicate of its path; empty if it may be one."""
    files = list(islice(_visible_files(path), LOOKED_AT))
    if not files:
        return "is empty."
    images = [file for file in files if file.suffix.lower() in IMAGE_SUFFIXES]
    has_labels = any(file.suffix.lower() in LABEL_SUFFIXES for file in files)
    if not images and any(find_file_type(file.name) for file in files if file.suffix != ".txt"):
        return ""
    if not images:
        return f"has no images or tables, only {_kinds(files)}."
    if not has_labels and all(image.parent == path for image in images):
        amount = words.plural(len(images), "image")
        return (
            f"has {amount} but no class folders. Put the images of each class into one folder, or "
            "add a labels.csv."
        )
    return ""


def _visible_files(path: Path) -> Iterator[Path]:
    for entry in sorted(path.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _visible_files(entry)
        else:
            yield entry


def _find_near(path: Path) -> str:
    """Return the end of a message if the folder of a missing path has a similar name."""
    try:
        names = sorted(entry.name for entry in islice(path.parent.iterdir(), LOOKED_AT))
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.7)
    return f"; did you mean {path.with_name(near[0])}?" if near else ""


def _kinds(files: list[Path]) -> str:
    counts = Counter(file.suffix.lower() or "files without a suffix" for file in files)
    return ", ".join(f"{amount} {kind}" for kind, amount in counts.most_common(4))
