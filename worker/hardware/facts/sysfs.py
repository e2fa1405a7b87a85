"""Files of one value or of `key value` lines, read so that a damaged one is a missing fact.

Captured trees come with trailing NUL bytes, folders in place of files, and cut or foreign content;
a driver answers a read with any errno. None of it may end the reader.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

Read = Callable[[str], bytes]
"""How a file is read; tests put one in place that answers as the kernel would."""

MAX_BYTES = 65536
"""A sysfs file has one page; more is no sysfs file."""

MAX_INTEGER = 2**64
_PAIR = re.compile(r"^[ \t]*(\w+)[ \t]+(-?[0-9]{1,20})[ \t]*\r?\n", re.MULTILINE | re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_HEX = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16})")


def read_file(path: str) -> bytes:
    """The first page(s) of a file.

    Raises:
        OSError: it cannot be opened or read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, MAX_BYTES)
    finally:
        os.close(descriptor)


def read_text(path: str, *, read: Read = read_file) -> str | None:
    """The text of a file without its trailing blanks and NULs; None where it cannot be read."""
    try:
        return decode(read(path)).strip()
    except OSError:
        return None


def read_pairs(path: str, *, read: Read = read_file) -> dict[str, int]:
    """The `key value` lines of a file; empty where it cannot be read."""
    try:
        return parse_pairs(decode(read(path)))
    except OSError:
        return {}


def read_integer(path: str, *, read: Read = read_file) -> int | None:
    """The decimal number that a file holds; None where it holds none."""
    text = read_text(path, read=read)
    return None if text is None else parse_integer(text)


def read_hexadecimal(path: str, *, read: Read = read_file) -> int | None:
    """The hexadecimal number that a file holds, with or without `0x`."""
    text = read_text(path, read=read)
    return None if text is None else parse_hexadecimal(text)


def list_numbers(directory: str, *, prefix: str = "") -> list[int]:
    """The numbers of the entries `<prefix><number>` of a folder, in order."""
    try:
        names = os.listdir(directory)  # noqa: PTH208  # names are all that is wanted
    except OSError:
        return []
    tails = (name[len(prefix) :] for name in names if name.startswith(prefix))
    return sorted(int(tail) for tail in tails if re.fullmatch(r"[0-9]{1,9}", tail))


def is_folder(path: Path) -> bool:
    """Whether there is such a folder; False where this process may not look."""
    try:
        return path.is_dir()
    except OSError:
        return False


def decode(content: bytes) -> str:
    """Text of what a driver wrote, up to the NULs with which captures pad it to a page."""
    return content.partition(b"\0")[0].decode("utf-8", "replace")


def parse_integer(text: str) -> int | None:
    """A decimal number of at most 64 bits."""
    if not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if abs(value) < MAX_INTEGER else None


def parse_hexadecimal(text: str) -> int | None:
    """A hexadecimal number of at most 64 bits."""
    match = _HEX.fullmatch(text)
    return int(match[1], 16) if match else None


def parse_pairs(text: str) -> dict[str, int]:
    """The `key value` lines of a properties file; lines of another form are left out.

    So is a last line without its end: in a file that was cut its number may be cut too.
    """
    numbers = ((key, int(value)) for key, value in _PAIR.findall(text))
    return {key: number for key, number in numbers if abs(number) < MAX_INTEGER}
