"""What lies at a path that somebody wants to train on, judged before anything is sent.

The service looks at every file; here only the names are looked at, so that a wrong folder is
refused at once and in words that fit it.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from redkiln.cli import words
from redkiln.cli.problems import UsageError
from redkiln.datasets import BUILTINS
from redkiln.packing import open_package
from redkiln.tables import find_file_type

IMAGE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
)
SPEC_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
LOOKED_AT = 20_000
"""Files that are looked at for a first opinion."""

ACCEPTED = f"""Accepted are image folders, as they are or in a zip or tar:
  PATH/<class>/*.png                    one folder a class
  PATH/train/<class>/*.png              with a split of their own:
  PATH/test/<class>/*.png               the test split is optional
tables (CSV, TSV, JSON lines, Parquet; plain, .gz, or train.* and test.* in a folder or archive)
and built-in sets: {", ".join(f"builtin:{name}" for name in BUILTINS)}"""


def check_path(path: Path) -> None:
    """Refuse a path that cannot be a data set.

    Raises:
        UsageError: says what was found.
        PackingError: a file that is neither zip, tar nor table, or cannot be read.
    """
    if not path.exists():
        raise UsageError(f"There is nothing at {path}.\n{ACCEPTED}")
    if path.is_dir():
        problem = judge_folder(path)
        if problem:
            raise UsageError(f"{path} {problem}\n{ACCEPTED}")
    elif path.suffix.lower() in SPEC_SUFFIXES:
        raise UsageError(f"{path} is a spec, not data. Queue it: redkiln submit {path} --watch")
    else:
        open_package(path)


def judge_folder(path: Path) -> str:
    """Why a folder is no data set, in words that go on after its name; empty if it may be."""
    files = list(islice(_visible_files(path), LOOKED_AT))
    if not files:
        return "is empty."
    images = [file for file in files if file.suffix.lower() in IMAGE_SUFFIXES]
    if not images and any(find_file_type(file.name) for file in files if file.suffix != ".txt"):
        return ""
    if not images:
        return f"holds neither images nor tables, but {_kinds(files)}."
    if all(image.parent == path for image in images):
        amount = words.plural(len(images), "image")
        return f"holds {amount} side by side: put those of each class into a folder named after it."
    return ""


def _visible_files(path: Path) -> Iterator[Path]:
    for entry in sorted(path.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _visible_files(entry)
        else:
            yield entry


def _kinds(files: list[Path]) -> str:
    counts = Counter(file.suffix.lower() or "files without an ending" for file in files)
    return ", ".join(f"{amount} {kind}" for kind, amount in counts.most_common(4))
