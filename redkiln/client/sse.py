"""Parses server-sent events: bytes of a stream in, whole messages out.

Implements the part of the WHATWG specification that the service uses: `id`, `event`, `data` and
comments. A message that was cut off with the connection is never returned.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Message:
    """One message; `id` is None if the service sent none (the stream cannot resume from it)."""

    event: str
    data: str
    id: str | None = None


def split_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the whole lines of a byte stream, without line ends; drops an unfinished last line.

    Only LF and CRLF end a line: `str.splitlines` would also split at U+2028 inside a JSON string.
    """
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")


def parse(lines: Iterable[str]) -> Iterator[Message]:
    """Yield the messages in a stream of lines."""
    event, data, identity = "", list[str](), None
    for line in lines:
        if not line:
            if data:
                yield Message(event=event or "message", data="\n".join(data), id=identity)
            event, data, identity = "", [], None
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            event = value
        elif field == "data":
            data.append(value)
        elif field == "id":
            identity = value
