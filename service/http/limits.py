"""Limits the size of request bodies, counted as they arrive: announced lengths may be wrong."""

import re
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.gate import LOGIN
from service.http.media import is_json
from service.settings import Settings

_REPORT = re.compile(r"/v1/attempts/[^/]+/(report|finish)")
_BUNDLE = re.compile(r"/v1/(bundles|models)/[^/]+")
_PREDICT = re.compile(r"/v1/artifacts/[^/]+/predict")
_PART = re.compile(r"/v1/uploads/[^/]+/parts/[^/]+")
_BLOB = re.compile(r"/v1/attempts/[^/]+/blobs/[^/]+")

PREDICT_BYTES = 16 * 1024**2
"""Largest body of a prediction, which a process with limits reads as a whole."""


LOGIN_BYTES = 4096
"""Largest body of a login, which is the only one that a stranger may send."""


class BodyLimit(NamedTuple):
    """The maximum size of a body in bytes, and what to do about a larger one."""

    size_bytes: int
    remedy: str


class BodyLimitMiddleware:
    """Refuses bodies larger than their endpoint's limit with 413."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        limit = body_limit(
            scope["method"], scope["path"], headers.get("content-type", ""), self._settings
        )
        announced = headers.get("content-length", "")
        received = 0

        async def receive_within_limit() -> Message:
            nonlocal received
            if announced.isdigit() and int(announced[:20]) > limit.size_bytes:
                raise _too_large(limit)
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit.size_bytes:
                raise _too_large(limit)
            return message

        await self._app(scope, receive_within_limit, send)


def body_limit(method: str, path: str, content_type: str, settings: Settings) -> BodyLimit:
    """Return the maximum size of a request's body."""
    if _REPORT.fullmatch(path):
        return _of(settings, "max_report_bytes")
    if method == "PUT" and _BLOB.fullmatch(path):
        return _of(settings, "max_upload_bytes")
    if method == "PUT" and _BUNDLE.fullmatch(path):
        return _of(settings, "max_bundle_bytes")
    if method == "PUT" and _PART.fullmatch(path):
        return BodyLimit(settings.upload_part_bytes, "send parts of the upload's `part_bytes`")
    if path == LOGIN:
        return BodyLimit(LOGIN_BYTES, "send only the key")
    is_raw = not is_json(content_type)
    if method == "POST" and _PREDICT.fullmatch(path) and is_raw:
        return BodyLimit(PREDICT_BYTES, "send less at once")
    if method == "POST" and path == "/v1/datasets" and is_raw:
        return _of(settings, "max_upload_bytes")
    return _of(settings, "max_json_bytes")


def _of(settings: Settings, name: str) -> BodyLimit:
    return BodyLimit(getattr(settings, name), f"send less, or raise REDKILN_{name.upper()}")


def _too_large(limit: BodyLimit) -> HTTPException:
    # FastAPI reports any other exception while reading a body as a malformed body.
    message = f"the body is larger than the limit of {limit.size_bytes} bytes; {limit.remedy}"
    return HTTPException(413, message)
