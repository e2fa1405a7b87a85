"""The current folder as a code bundle: what a script needs, and not what surrounds it.

A bundle is the deterministic tar of `redkiln.packing`: an unchanged folder has the digest that it
had before, and need not be sent again. Left out is what `.gitignore` and `.redkilnignore` files
say (also those in subfolders), what version control, Python and editors leave behind, virtual
environments, `.env` files, links that lead out of the folder, and the results of earlier jobs:
`out` at the top (unless an ignoring file says `!/out/`), folders that a job's files were fetched
to, and those of `redkiln run --local`.
"""

import fnmatch
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from redkiln.errors import PackingError
from redkiln.packing import Member, Package, pack_members
from redkiln.result_folder import find_owner

DEFAULT_LIMIT_BYTES = 100 * 1024**2
"""Of a bundle: code, not data. Data belongs into a data set, or into a folder that .gitignore
names."""
MAX_NAMED = 5

_IGNORE_FILES = (".gitignore", ".redkilnignore")
_NEVER: dict[str, str] = {
    ".git": "version control",
    ".hg": "version control",
    ".svn": "version control",
    "__pycache__": "compiled Python",
    "*.pyc": "compiled Python",
    ".ipynb_checkpoints": "copies of notebooks",
    ".mypy_cache": "a cache",
    ".pytest_cache": "a cache",
    ".ruff_cache": "a cache",
    "node_modules": "installed packages",
    ".DS_Store": "of the operating system",
    "Thumbs.db": "of the operating system",
    ".env": "may hold secrets",
    ".*-redkiln": "of runs without the queue",
}


@dataclass(frozen=True)
class LeftOut:
    """A file or folder that does not go into a bundle, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Bundle:
    """A folder's code, ready to be sent.

    Attributes:
        left_out: folders as a whole, with `/` behind their names.
    """

    package: Package
    left_out: tuple[LeftOut, ...]

    @property
    def num_files(self) -> int:
        """Files that go in."""
        return sum(not member.is_folder for member in self.package.members or ())


def open_bundle(folder: Path, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Bundle:
    """Look at a folder whose code shall run somewhere else.

    Raises:
        PackingError: it is no folder, cannot be read, holds nothing, or is too large; the largest
            files are named then.
    """
    if not folder.is_dir():
        raise PackingError(f"{folder} is no folder")
    members: list[Member] = []
    left_out: list[LeftOut] = []
    for found in _walk(folder, "", rules=(_BY_DEFAULT,), root=Path(os.path.realpath(folder))):
        if isinstance(found, Member):
            members.append(found)
        else:
            left_out.append(found)
    if not members:
        raise PackingError(f"{folder} holds no files that would go into a bundle")
    package = pack_members(folder, members)
    if package.size_bytes > limit_bytes:
        raise PackingError(_explain_size(package, limit_bytes))
    return Bundle(package, tuple(left_out))


@dataclass(frozen=True)
class _Rules:
    """Patterns, the folder that they are relative to, and why what they match is left out."""

    prefix: str
    reason: str
    spec: GitIgnoreSpec


_RESULTS = "results of jobs"
_BY_DEFAULT = _Rules("", _RESULTS, GitIgnoreSpec.from_lines(["/out/"]))


def _walk(
    folder: Path, prefix: str, *, rules: tuple[_Rules, ...], root: Path
) -> Iterator[Member | LeftOut]:
    try:
        rules = (*rules, *_load_rules(folder, prefix))
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        for entry in entries:
            name = f"{prefix}{entry.name}"
            is_folder = entry.is_dir()
            reason = _why_not(entry, name, is_folder=is_folder, rules=rules, root=root)
            if reason is not None:
                yield LeftOut(f"{name}/" if is_folder else name, reason)
            elif is_folder:
                yield from _walk(Path(entry.path), f"{name}/", rules=rules, root=root)
            else:
                status = entry.stat()
                yield Member(
                    name=name,
                    path=Path(entry.path),
                    size_bytes=status.st_size,
                    is_executable=bool(status.st_mode & 0o100),
                )
    except OSError as error:
        raise PackingError(f"{error.filename} cannot be read: {error.strerror}") from error


def _load_rules(folder: Path, prefix: str) -> Iterator[_Rules]:
    for file in _IGNORE_FILES:
        path = folder / file
        if path.is_file():
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            yield _Rules(prefix, f"ignored by {prefix}{file}", GitIgnoreSpec.from_lines(lines))


def _why_not(
    entry: "os.DirEntry[str]",
    name: str,
    *,
    is_folder: bool,
    rules: tuple[_Rules, ...],
    root: Path,
) -> str | None:
    for pattern, reason in _NEVER.items():
        if fnmatch.fnmatchcase(entry.name, pattern):
            return reason
    if entry.is_symlink():
        target = Path(os.path.realpath(entry.path))
        if not target.is_relative_to(root):
            return "links out of the folder"
        if is_folder and Path(os.path.realpath(Path(entry.path).parent)).is_relative_to(target):
            return "links to a folder that it lies in"
    if is_folder and Path(entry.path, "pyvenv.cfg").is_file():
        return "a virtual environment"
    if is_folder and _holds_results(Path(entry.path)):
        return _RESULTS
    if not is_folder and not entry.is_file():
        return "no plain file"
    return _find_ignoring_file(f"{name}/" if is_folder else name, rules)


def _holds_results(folder: Path) -> bool:
    """Whether a job's files were fetched to a folder, or `run --local` left its own there."""
    is_local = folder.with_name(f".{folder.name}-redkiln").is_dir()
    return is_local or find_owner(folder) is not None


def _find_ignoring_file(name: str, rules: tuple[_Rules, ...]) -> str | None:
    """Which file says that a name is to be ignored; what is said last counts, as in git."""
    verdict: str | None = None
    for item in rules:
        include = item.spec.check_file(name.removeprefix(item.prefix)).include
        if include is not None:
            verdict = item.reason if include else None
    return verdict


def _explain_size(package: Package, limit_bytes: int) -> str:
    largest = sorted(package.members or (), key=lambda member: -member.size_bytes)[:MAX_NAMED]
    named = ", ".join(f"{item.name} ({_mib(item.size_bytes)})" for item in largest)
    return (
        f"{package.path} would make a bundle of {_mib(package.size_bytes)}, and the limit is "
        f"{_mib(limit_bytes)}. Largest: {named}. Name what is no code in .redkilnignore, and push "
        "data as a data set (redkiln datasets push)"
    )


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / 1024**2:.1f} MiB"
