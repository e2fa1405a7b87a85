"""Reads files with one value or with `key value` lines; a damaged file is a missing fact.

Captured trees have trailing NUL bytes, folders in place of files, and truncated or foreign content,
and a driver may answer a read with any errno. None of this may end the reader.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

Read = Callable[[str], bytes]
"""Reads a file; tests replace it with one that answers as the kernel would."""

MAX_BYTES = 65536
"""A sysfs file has one page; a larger file is not from sysfs."""

MAX_INTEGER = 2**64
_PAIR = re.compile(r"^[ \t]*(\w+)[ \t]+(-?[0-9]{1,20})[ \t]*\r?\n", re.MULTILINE | re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_HEX = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16})")


def read_file(path: str) -> bytes:
    """Read the beginning of a file.

    Raises:
        OSError: The file cannot be opened or read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, MAX_BYTES)
    finally:
        os.close(descriptor)


def read_text(path: str, *, read: Read = read_file) -> str | None:
    """Read a file's text without surrounding whitespace and NULs; None if it cannot be read."""
    try:
        return decode(read(path)).strip()
    except OSError:
        return None


def read_pairs(path: str, *, read: Read = read_file) -> dict[str, int]:
    """Read the `key value` lines of a file; empty if it cannot be read."""
    try:
        return parse_pairs(decode(read(path)))
    except OSError:
        return {}


def read_integer(path: str, *, read: Read = read_file) -> int | None:
    """Read the decimal number in a file, or None; a truncated file has no newline."""
    text = _read_line(path, read=read)
    return None if text is None else parse_integer(text)


def read_hexadecimal(path: str, *, read: Read = read_file) -> int | None:
    """Read the hexadecimal number in a file, with or without `0x`, or None."""
    text = _read_line(path, read=read)
    return None if text is None else parse_hexadecimal(text)


def list_numbers(directory: str, *, prefix: str = "") -> list[int]:
    """List the numbers of a folder's entries `<prefix><number>`, in order."""
    try:
        names = os.listdir(directory)  # noqa: PTH208  # only names are needed
    except OSError:
        return []
    tails = (name[len(prefix) :] for name in names if name.startswith(prefix))
    return sorted(int(tail) for tail in tails if re.fullmatch(r"[0-9]{1,9}", tail))


def is_folder(path: Path) -> bool:
    """Return whether a folder exists; False if this process may not look."""
    try:
        return path.is_dir()
    except OSError:
        return False


def decode(content: bytes) -> str:
    """Decode a driver's text, up to the NULs with which captures pad it to a page."""
    return content.partition(b"\0")[0].decode("utf-8", "replace")


def parse_integer(text: str) -> int | None:
    """Parse a decimal number of at most 64 bits; None if the text is not one."""
    if not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if abs(value) < MAX_INTEGER else None


def parse_hexadecimal(text: str) -> int | None:
    """Parse a hexadecimal number of at most 64 bits; None if the text is not one."""
    match = _HEX.fullmatch(text)
    return int(match[1], 16) if match else None


def parse_pairs(text: str) -> dict[str, int]:
    """Parse the `key value` lines of a properties file; other lines are ignored.

    A last line without a newline is ignored too: in a truncated file its number may be truncated.
    """
    numbers = ((key, int(value)) for key, value in _PAIR.findall(text))
    return {key: number for key, number in numbers if abs(number) < MAX_INTEGER}


def _read_line(path: str, *, read: Read) -> str | None:
    """Read a file's text, or None if its last line does not end."""
    try:
        text = decode(read(path))
    except OSError:
        return None
    return text.strip() if text.endswith("\n") else None
