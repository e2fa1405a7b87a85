"""Lists the files of a data set and refuses unsafe names."""

import re
from dataclasses import dataclass, field

from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.report import MAX_LISTED, Refused, problem, refuse, show

Parts = tuple[str, ...]

_IGNORED_FOLDERS = {"__macosx", "@eadir", "$recycle.bin", "system volume information"}
_IGNORED_FILES = {"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r"}
_DRIVE = re.compile(r"[A-Za-z]:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Entry:
    """A regular file of a data set. There may be millions, so it holds little.

    Attributes:
        path: Path as the archive or folder has it; also used in the index.
        offset: Offset of the content in the archive.
        packed_bytes: Size of the content in the archive.
        size_bytes: Unpacked size according to the archive.
        crc: CRC-32 of the content, if the archive has one.
        is_deflated: Whether the content is a raw deflate stream.
    """

    path: str
    size_bytes: int = 0
    offset: int = 0
    packed_bytes: int = 0
    crc: int | None = None
    is_deflated: bool = False

    @property
    def parts(self) -> Parts:
        """Components of the path without `.` and empty ones."""
        return split_path(self.path)


@dataclass
class Listing:
    """The files and folders of a data set, each name once, without system files.

    Attributes:
        ignored: Paths of hidden and system files.
    """

    limits: Limits
    files: list[Entry] = field(default_factory=list)
    folders: set[Parts] = field(default_factory=set)
    ignored: list[str] = field(default_factory=list)
    problems: list[DatasetProblem] = field(default_factory=list)
    num_problems: int = 0
    _names: set[str] = field(default_factory=set)
    _parents: set[str] = field(default_factory=set)
    _num_entries: int = 0
    _total_bytes: int = 0

    def parse(self, path: str) -> Parts | None:
        """Return the components of a path; None if it is refused, which is recorded."""
        self._num_entries += 1
        if self._num_entries > self.limits.max_entries:
            limit = self.limits.max_entries
            message = f"there are more than {limit} files and folders; split the data set"
            raise refuse("too_many_entries", message)
        code, message = find_fault(path, limits=self.limits) or (None, "")
        if code is not None:
            self.note(code, message, path)
            return None
        return split_path(path)

    def add_file(self, entry: Entry) -> None:
        """Add a regular file."""
        parts = entry.parts
        name = "/".join(parts)
        if name in self._names or not parts:
            message = "is in the archive more than once; pack it again with each name once"
            self.note("duplicate_name", message, entry.path)
            return
        # An equal string is not kept twice.
        self._names.add(entry.path if entry.path == name else name)
        while (name := name.rpartition("/")[0]) and name not in self._parents:
            self._parents.add(name)
        self._total_bytes += entry.size_bytes
        if self._total_bytes > self.limits.max_total_bytes:
            limit = self.limits.max_total_bytes
            message = f"the files have more than {limit} bytes in total; split the data set"
            raise refuse("too_large", message)
        if is_ignored(parts):
            self.ignored.append(entry.path)
        else:
            self.files.append(entry)

    def add_folder(self, parts: Parts) -> None:
        """Add a folder, which may be empty."""
        if parts and not is_ignored(parts):
            self.folders.add(parts)

    def note(self, code: str, message: str, path: str) -> None:
        """Record a problem for which the data set will be refused."""
        self.num_problems += 1
        if len(self.problems) < MAX_LISTED:
            self.problems.append(problem(code, message, path))

    @property
    def total_bytes(self) -> int:
        """Size of all files together."""
        return self._total_bytes

    def close(self) -> None:
        """Refuse the data set if any problem was recorded.

        Raises:
            Refused: There are problems; the error has all of them.
        """
        for name in self._names & self._parents:
            message = "is both a file and a folder; rename one and pack the archive again"
            self.note("duplicate_name", message, name)
        self._names.clear()
        if self.num_problems > len(self.problems):
            rest = self.num_problems - len(self.problems)
            self.problems.append(problem("more", f"and {rest} more problems like these"))
        if self.problems:
            raise Refused(self.problems)


def split_path(path: str) -> Parts:
    """Return the components of a path without `.` and empty ones."""
    return tuple(part for part in path.split("/") if part not in ("", "."))


def find_fault(path: str, *, limits: Limits) -> tuple[str, str] | None:
    """Return why a path is refused, as code and message; None for an acceptable one."""
    name = path.removesuffix("/")
    parts = name.split("/")
    if not path:
        return "unsafe_path", "has an empty name; pack the archive again"
    if name.startswith("/") or _DRIVE.match(name):
        return "unsafe_path", "is an absolute path; pack the files with relative paths"
    if ".." in parts:
        return "unsafe_path", "points outside the archive (`..`); pack it again with plain paths"
    if "\\" in name:
        return "unsafe_path", "contains a backslash; pack it again with `/` between folders"
    if _CONTROL.search(name):
        return "unsafe_path", "contains control characters or is not UTF-8; rename it"
    if len(name.encode()) > limits.max_name_bytes or len(parts) > limits.max_depth:
        message = (
            f"is longer than {limits.max_name_bytes} bytes or nested deeper than "
            f"{limits.max_depth} folders; shorten it"
        )
        return "unsafe_path", message
    return None


def is_ignored(parts: Parts) -> bool:
    """Return whether a path is hidden or a system file such as `__MACOSX` or `Thumbs.db`."""
    if any(part.startswith(".") or part.casefold() in _IGNORED_FOLDERS for part in parts):
        return True
    return parts[-1].casefold() in _IGNORED_FILES


def describe(parts: Parts) -> str:
    """Return a path as text for messages."""
    return show("/".join(parts))
