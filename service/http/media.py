"""Media types of bodies."""

from collections.abc import AsyncIterator

from service.errors import BadRequest

_ZIP = ("zip archive", (b"PK\x03\x04", b"PK\x05\x06"))
_GZIP = ("gzip file", (b"\x1f\x8b",))
_STARTS = {
    "application/zip": _ZIP,
    "application/x-zip-compressed": _ZIP,
    "application/gzip": _GZIP,
    "application/x-gzip": _GZIP,
}
"""What a body of a media type is, and what it starts with."""
_START_BYTES = 4


def base_type(content_type: str) -> str:
    """Return a `Content-Type` without its parameters, in small letters."""
    return content_type.partition(";")[0].strip().lower()


def is_json(content_type: str) -> bool:
    """Return whether the service parses a body of this type as JSON, as FastAPI does."""
    main, _, sub = base_type(content_type).partition("/")
    return main == "application" and (sub == "json" or sub.endswith("+json"))


async def check_start(body: AsyncIterator[bytes], content_type: str) -> AsyncIterator[bytes]:
    """Yield a body, which must start as its media type says unless it is empty.

    Raises:
        BadRequest: The type is zip or gzip, and the body is something else.
    """
    kind, starts = _STARTS.get(base_type(content_type), ("", (b"",)))
    first = b""
    async for chunk in body:
        first += chunk[: _START_BYTES - len(first)]
        if len(first) == _START_BYTES and not first.startswith(starts):
            break
        yield chunk
    if first and not first.startswith(starts):
        raise BadRequest(
            f"the body is not a {kind}, although its Content-Type is {base_type(content_type)}; "
            "send a table as text/csv, or any file as application/octet-stream",
            code="wrong_format",
        )
