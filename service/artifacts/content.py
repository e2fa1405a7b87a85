"""Sends a stored blob, whole or one range of it, with a digest to check the transfer.

A blob never changes, so its sha256 is a strong ETag and it may be cached for ever. A request for
several ranges is answered with the whole blob, as RFC 9110 section 14.2 allows.
"""

import base64
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from service.errors import Gone, PreconditionFailed, RangeNotSatisfiable
from service.storage import Storage, Stored

CONTENT: dict[int | str, dict[str, Any]] = {
    206: {"description": "The requested range of the file."},
    304: {"description": "The client already has this file."},
    410: {"description": "The file has been deleted."},
    412: {"description": "`If-Match` does not match the file."},
    416: {"description": "The range starts after the end of the file."},
}
"""Answers of an endpoint that sends a blob, for the document of the API."""
_RANGE = re.compile(r"bytes=(\d{1,19})?-(\d{1,19})?", re.IGNORECASE)
_ASCII = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True)
class Part:
    """The part of a blob to send: `status` 200, 206 or 304, bytes `start` to `end` (exclusive)."""

    status: int
    start: int
    end: int


def content_response(
    storage: Storage, sha256: str, *, request: Request, filename: str, media_type: str
) -> Response:
    """Return the response to GET or HEAD of a blob.

    Args:
        storage: Storage that holds the blob.
        sha256: Digest of the blob.
        request: Request whose conditional and range headers are followed.
        filename: Name under which a browser saves the file.
        media_type: Media type of the whole blob.

    Raises:
        Gone: The blob has been deleted.
        PreconditionFailed: If-Match does not match the blob.
        RangeNotSatisfiable: The range starts after the end of the blob.
    """
    stored = storage.stat(sha256)
    if stored is None:
        raise Gone(f"the content of {filename} has been deleted")
    part = choose_part(
        request.headers, method=request.method, etag=make_etag(sha256), size_bytes=stored.size_bytes
    )
    headers = _describe(stored, filename=filename)
    if part.status == 304:
        return Response(status_code=304, headers=headers)
    headers["Content-Length"] = str(part.end - part.start)
    if part.status == 206:
        headers["Content-Range"] = f"bytes {part.start}-{part.end - 1}/{stored.size_bytes}"
    if request.method == "HEAD" or part.start == part.end:
        return Response(status_code=part.status, headers=headers, media_type=media_type)
    # A thread reads each chunk. Closing the iterator closes the file, also if the client leaves.
    chunks = storage.open(sha256, start=part.start, end=part.end)
    return StreamingResponse(chunks, part.status, headers, media_type)


def make_etag(sha256: str) -> str:
    """Return the entity tag of a blob, quoted."""
    return f'"sha256-{sha256}"'


def choose_part(headers: Headers, *, method: str, etag: str, size_bytes: int) -> Part:
    """Decide what to send, checking conditions in the order of RFC 9110 section 13.2.2.

    Raises:
        PreconditionFailed: If-Match does not match the content.
        RangeNotSatisfiable: The range starts after the end of the content.
    """
    if_match = headers.get("if-match")
    if if_match is not None and not _names(if_match, etag, weak=False):
        message = f"If-Match does not match: the content is now {etag}"
        raise PreconditionFailed(message, headers={"ETag": etag})
    if_none_match = headers.get("if-none-match")
    if if_none_match is not None and _names(if_none_match, etag, weak=True):
        return Part(304, 0, 0)
    whole = Part(200, 0, size_bytes)
    wanted = headers.get("range")
    if method != "GET" or wanted is None or headers.get("if-range", etag) != etag:
        return whole
    return _parse_range(wanted, size_bytes) or whole


def _parse_range(wanted: str, size_bytes: int) -> Part | None:
    """Return the requested range; None if the header has several ranges or is malformed."""
    match = _RANGE.fullmatch(wanted.replace(" ", ""))
    if match is None or match[0].endswith("=-"):
        return None
    first, last = match.groups()
    if first is None:
        start, end = max(0, size_bytes - int(last)), size_bytes
    else:
        start = int(first)
        end = size_bytes if last is None else min(int(last) + 1, size_bytes)
        if last is not None and int(last) < start:
            return None
    if start >= size_bytes:
        raise RangeNotSatisfiable(
            f"the range starts after the end of the content, which has {size_bytes} bytes",
            headers={"Content-Range": f"bytes */{size_bytes}"},
        )
    return Part(206, start, end)


def _names(condition: str, etag: str, *, weak: bool) -> bool:
    tags = [tag.strip() for tag in condition.split(",")]
    if weak:
        tags = [tag.removeprefix("W/") for tag in tags]
    return "*" in tags or etag in tags


def _describe(stored: Stored, *, filename: str) -> dict[str, str]:
    digest = base64.b64encode(bytes.fromhex(stored.sha256)).decode()
    ascii_name = _ASCII.sub("_", filename)
    disposition = f'attachment; filename="{ascii_name}"'
    if ascii_name != filename:
        disposition += f"; filename*=UTF-8''{quote(filename, safe='')}"
    return {
        "ETag": make_etag(stored.sha256),
        "Repr-Digest": f"sha-256=:{digest}:",
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, max-age=31536000, immutable",
        "Content-Disposition": disposition,
        "X-Content-Type-Options": "nosniff",
    }
