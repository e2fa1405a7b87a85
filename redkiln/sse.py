"""Server-sent events: bytes of a stream in, whole messages out.

Follows the part of the WHATWG specification that the service uses: `id`, `event`, `data` and
comments. A message that the connection cut in the middle is never given out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Message:
    """One message; `id` is None where the service gave none (it cannot be resumed from)."""

    event: str
    data: str
    id: str | None = None


def split_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Whole lines of a byte stream, without their ends; a last line without an end is dropped.

    Only LF and CRLF end a line: `str.splitlines` would also cut at U+2028 inside a JSON string.
    """
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")


def parse(lines: Iterable[str]) -> Iterator[Message]:
    """Messages of a stream of lines."""
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
