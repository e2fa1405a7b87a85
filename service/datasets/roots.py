"""Decides which folders of this machine may be registered in place."""

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from redkiln.spec.problems import SpecProblem
from service.datasets import beneath
from service.errors import Unprocessable


@dataclass(frozen=True)
class Located:
    """A folder: its trusted root and the path components below it."""

    root: Path
    below: tuple[str, ...]

    @property
    def path(self) -> str:
        """The folder's absolute path."""
        return str(self.root.joinpath(*self.below))


def locate(path: str, roots: Sequence[Path]) -> Located:
    """Find the root above a folder, and check that the path below the root has no links.

    Raises:
        Unprocessable: The path is outside every root, behind a symbolic link, or not a folder.
    """
    pure = PurePosixPath(path)
    if not pure.is_absolute() or ".." in pure.parts or "\0" in path:
        raise _refuse("not_absolute", f"{path!r} is not allowed; use an absolute path without `..`")
    base = find_root(path, roots)
    if base is not None:
        located = Located(base, pure.relative_to(base).parts)
        _require_folder(located)
        return located
    if not roots:
        message = (
            "folders cannot be registered in place because REDKILN_DATA_ROOTS is not set; upload "
            "an archive instead"
        )
    else:
        known = ", ".join(str(root) for root in roots)
        message = f"is outside the folders allowed for registering in place ({known})"
    raise _refuse("outside_roots", message)


def find_root(path: str, roots: Sequence[Path]) -> Path | None:
    """Return the allowed folder above a path, in the spelling that the path uses; None without."""
    pure = PurePosixPath(path)
    bases = (base for root in roots for base in (root.absolute(), root.resolve()))
    return next((base for base in bases if pure.is_relative_to(base)), None)


def open_located(located: Located) -> int:
    """Open a located folder; the caller closes the descriptor.

    Raises:
        OSError: The folder no longer exists, or a link is in the way.
    """
    root_fd = beneath.open_root(located.root)
    try:
        return beneath.open_folder(root_fd, located.below)
    finally:
        os.close(root_fd)


def _require_folder(located: Located) -> None:
    try:
        os.close(open_located(located))
    except FileNotFoundError:
        raise _refuse(
            "no_such_folder", "this folder does not exist on the service's machine"
        ) from (None)
    except OSError as error:
        # With O_DIRECTORY and O_NOFOLLOW, a link gives ENOTDIR, too.
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            if _has_link(located):
                message = "leads through a symbolic link; use the real path"
                raise _refuse("symlink", message) from None
            raise _refuse("not_a_folder", "is not a folder; upload an archive instead") from None
        raise _refuse("unreadable", f"cannot be opened: {error.strerror}") from None


def _has_link(located: Located) -> bool:
    """Return whether the path has a link; checks the outermost first, to follow none."""
    below = located.below
    steps = (located.root.joinpath(*below[: depth + 1]) for depth in range(len(below)))
    return any(step.is_symlink() for step in steps)


def _refuse(code: str, message: str) -> Unprocessable:
    detail = f"/path: {message}"
    return Unprocessable(detail, code=code, errors=[SpecProblem("/path", code, message)])
