"""A note on hidden files that look like data: they are never part of a data set."""

from collections.abc import Iterable
from pathlib import PurePosixPath

from redkiln.tables import find_file_type

IMAGE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
)
_OF_MACOS = "._"


def note_hidden(paths: Iterable[str]) -> list[str]:
    """Return a note on the hidden images and tables among files that are left out, if any.

    Files that macOS adds to others are counted apart, because they contain no data.

    Args:
        paths: Paths of the files, with POSIX separators.
    """
    hidden = sorted(path for path in map(PurePosixPath, paths) if _looks_like_data(path))
    own = [path for path in hidden if not path.name.startswith(_OF_MACOS)]
    notes = []
    if len(own) == 1:
        notes.append(f"a hidden file is left out: {own[0]}; to use it, rename it without the dot")
    elif own:
        notes.append(
            f"{len(own):,} hidden files are left out, such as {own[0]}; to use them, rename them "
            "without the dot"
        )
    if num := len(hidden) - len(own):
        what = "1 file of macOS is" if num == 1 else f"{num:,} files of macOS are"
        notes.append(f"{what} left out, such as {min(set(hidden) - set(own))}")
    return notes


def _looks_like_data(path: PurePosixPath) -> bool:
    is_data = path.suffix.lower() in IMAGE_SUFFIXES or find_file_type(path.name) is not None
    return is_data and path.name.startswith(".")
