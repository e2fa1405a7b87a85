"""Finds the built file, and the compressed form of it, that answers a request."""

import mimetypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_SUFFIXES = {"br": ".br", "gzip": ".gz"}
"""Encodings in the order of preference, and what `make page` appends to the name."""
_MEDIA_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm",
                ".svg": "image/svg+xml", ".css": "text/css", ".html": "text/html"}  # fmt: skip


@dataclass(frozen=True)
class BuiltFile:
    """A file to send.

    Attributes:
        path: File on disk, perhaps a compressed one.
        encoding: Value of `Content-Encoding`; None if the client gets it without compression.
        is_packed: Whether it must be unpacked first: only the compressed forms of large files are
            kept.
    """

    path: Path
    media_type: str
    encoding: str | None = None
    is_packed: bool = False


def find_file(folder: Path, name: str, *, accepted: Sequence[str]) -> BuiltFile | None:
    """Return a file of a folder in the best accepted encoding; None if the folder lacks it.

    Args:
        folder: Folder without subfolders.
        name: Last part of the requested path; a name that leaves the folder is not found.
        accepted: Content encodings that the client accepts.
    """
    path = folder / name
    if not _NAME.fullmatch(name):
        return None
    media_type = _media_type(path)
    for encoding, suffix in _SUFFIXES.items():
        compressed = folder / f"{name}{suffix}"
        if encoding in accepted and compressed.is_file():
            return BuiltFile(compressed, media_type, encoding)
    if path.is_file():
        return BuiltFile(path, media_type)
    packed = folder / f"{name}{_SUFFIXES['gzip']}"
    return BuiltFile(packed, media_type, is_packed=True) if packed.is_file() else None


def accepted_encodings(header: str) -> list[str]:
    """Return the encodings that an `Accept-Encoding` header allows."""
    allowed = []
    for part in header.split(","):
        name, _, parameter = part.partition(";")
        if parameter.replace(" ", "") not in ("q=0", "q=0.0"):
            allowed.append(name.strip().lower())
    return allowed


def _media_type(path: Path) -> str:
    known = _MEDIA_TYPES.get(path.suffix)
    return known or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
