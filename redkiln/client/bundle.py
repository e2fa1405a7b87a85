"""Code bundles: the files of a folder that a script needs.

A bundle is the deterministic tar of `redkiln.client.packing`: an unchanged folder keeps its digest
and need not be sent again. These are left out: files excluded by `.gitignore` and
`.redkilnignore` (also in subfolders), files of version control, Python and editors, virtual
environments, `.env` files, links out of the folder, files that the output of this program goes to,
and the results of earlier jobs. Results are
`out` at the top (unless an ignore file has `!/out/`), folders that a job's files were downloaded
to, and those of `redkiln run --local`.
"""

import fnmatch
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from redkiln.client.own_output import FileId, find_outputs, identify
from redkiln.client.packing import Member, Package, pack_members
from redkiln.client.result_folder import find_owner
from redkiln.errors import PackingError

DEFAULT_LIMIT_BYTES = 100 * 1024**2
"""Largest bundle. It holds code; data belongs in a data set, or in a folder named in .gitignore."""
MAX_NAMED = 5

_IGNORE_FILES = (".gitignore", ".redkilnignore")
_NEVER: dict[str, str] = {
    ".git": "version control",
    ".hg": "version control",
    ".svn": "version control",
    "__pycache__": "compiled Python",
    "*.pyc": "compiled Python",
    ".ipynb_checkpoints": "notebook checkpoints",
    ".mypy_cache": "a cache",
    ".pytest_cache": "a cache",
    ".ruff_cache": "a cache",
    "node_modules": "installed packages",
    ".DS_Store": "a file of the operating system",
    "Thumbs.db": "a file of the operating system",
    ".env": "may contain secrets",
    ".*-redkiln": "state of runs without the queue",
}


@dataclass(frozen=True)
class LeftOut:
    """A file or folder that does not go into a bundle, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Bundle:
    """The code of a folder, ready to be sent.

    Attributes:
        left_out: Files and whole folders that were left out; names of folders end with `/`.
    """

    package: Package
    left_out: tuple[LeftOut, ...]

    @property
    def num_files(self) -> int:
        """Number of files in the bundle."""
        return sum(not member.is_folder for member in self.package.members or ())


def open_bundle(folder: Path, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Bundle:
    """Collect the files of a folder whose code is to run elsewhere.

    Raises:
        PackingError: The path is not a folder, cannot be read, has no files to send, or is too
            large; the message then names the largest files.
    """
    if not folder.is_dir():
        raise PackingError(f"{folder} is not a folder")
    members: list[Member] = []
    left_out: list[LeftOut] = []
    whole = _Whole(Path(os.path.realpath(folder)), find_outputs())
    for found in _walk(folder, "", rules=(_BY_DEFAULT,), whole=whole):
        if isinstance(found, Member):
            members.append(found)
        else:
            left_out.append(found)
    if not members:
        raise PackingError(
            f"{folder} has no files to send: it is empty, or everything in it is ignored"
        )
    package = pack_members(folder, members)
    if package.size_bytes > limit_bytes:
        raise PackingError(_explain_size(package, limit_bytes))
    return Bundle(package, tuple(left_out))


@dataclass(frozen=True)
class _Rules:
    """Patterns, the folder they are relative to, and the reason given for files they match."""

    prefix: str
    reason: str
    spec: GitIgnoreSpec


@dataclass(frozen=True)
class _Whole:
    """The folder that is packed, and the files of any folder that this program's output goes to."""

    root: Path
    outputs: frozenset[FileId]


_RESULTS = "results of jobs"
_BY_DEFAULT = _Rules("", _RESULTS, GitIgnoreSpec.from_lines(["/out/"]))


def _walk(
    folder: Path, prefix: str, *, rules: tuple[_Rules, ...], whole: _Whole
) -> Iterator[Member | LeftOut]:
    try:
        rules = (*rules, *_load_rules(folder, prefix))
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        for entry in entries:
            name = f"{prefix}{entry.name}"
            is_folder = entry.is_dir()
            reason = _why_not(entry, name, is_folder=is_folder, rules=rules, whole=whole)
            if reason is not None:
                yield LeftOut(f"{name}/" if is_folder else name, reason)
            elif is_folder:
                yield from _walk(Path(entry.path), f"{name}/", rules=rules, whole=whole)
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
    whole: _Whole,
) -> str | None:
    for pattern, reason in _NEVER.items():
        if fnmatch.fnmatchcase(entry.name, pattern):
            return reason
    if entry.is_symlink():
        target = Path(os.path.realpath(entry.path))
        if not target.is_relative_to(whole.root):
            return "links out of the folder"
        if is_folder and Path(os.path.realpath(Path(entry.path).parent)).is_relative_to(target):
            return "links to a folder that contains it"
    if is_folder and Path(entry.path, "pyvenv.cfg").is_file():
        return "a virtual environment"
    if is_folder and _holds_results(Path(entry.path)):
        return _RESULTS
    if not is_folder and not entry.is_file():
        return "not a regular file"
    if not is_folder and identify(entry.stat()) in whole.outputs:
        return "the output of this program"
    return _find_ignoring_file(f"{name}/" if is_folder else name, rules)


def _holds_results(folder: Path) -> bool:
    """Return whether a folder holds a job's downloaded files or those of `run --local`."""
    is_local = folder.with_name(f".{folder.name}-redkiln").is_dir()
    return is_local or find_owner(folder) is not None


def _find_ignoring_file(name: str, rules: tuple[_Rules, ...]) -> str | None:
    """Return which file ignores a name, if any; the last match counts, as in git."""
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
        f"The code bundle of {package.path} is {_mib(package.size_bytes)}, more than the limit of "
        f"{_mib(limit_bytes)}. Largest files: {named}. List files that are not code in "
        ".redkilnignore, and push data as a data set (redkiln datasets push)."
    )


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / 1024**2:.1f} MiB"
