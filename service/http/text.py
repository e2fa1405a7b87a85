"""What no database stores: NUL, lone surrogates and numbers that are not finite, in JSON bodies.

PostgreSQL's text and JSON types cannot hold them: once stored elsewhere, they would make every
query that reads them fail. What users send with them is refused. What workers send is repaired,
because it repeats what a user's program printed, and a refusal would lose the attempt.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from redkiln.spec.problems import SpecProblem, escape_pointer
from service.errors import ServiceError, Unprocessable
from service.http.bodies import FULL_COLLECTIONS, apply, load_json
from service.http.malformed import check_encoding
from service.http.media import is_json
from service.http.problems import render_error, request_id_of

CODE = "forbidden_character"
NOT_FINITE = "not_finite"
_ESCAPES = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_WORDS = (b"NaN", b"Infinity")
_SHAPES = (b"0e000", b"0e+000", b"0" * 309)
"""Shapes of numbers that float64 may not hold, as `_SHAPE` writes them."""
_SHAPE = bytes.maketrans(b"123456789E", b"000000000e")
_FORBIDDEN = re.compile("[\0\ud800-\udfff]")
_WORKERS = ("/v1/attempts/", "/v1/workers/")
_MAX_SHOWN = 20


class TextMiddleware:
    """Refuses or repairs JSON bodies below `/v1` that hold what no database stores."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if not _is_concerned(scope):
            await self._app(scope, receive, send)
            return
        try:
            body = await _read(receive)
        except HTTPException as refusal:
            await self._app(scope, _raise(refusal), send)  # the application renders it
            return
        if body is None:
            return  # the client has left
        with FULL_COLLECTIONS.postponed(body):
            try:
                checked = await _check(body, scope["path"])
            except ServiceError as fault:
                response = render_error(fault, request_id=request_id_of(scope))
                await response(scope, receive, send)
                return
            await self._app(scope, _replay(checked, receive), send)


async def _check(body: bytes, path: str) -> bytes:
    """Return the body to serve.

    Raises:
        BadRequest: The body is not UTF-8.
        Unprocessable: A user's body holds what no database stores.
    """
    check_encoding(body)
    if not _is_suspect(body):
        return body
    if path.startswith(_WORKERS):
        return await apply(_repair, body)
    problems = await apply(_find_problems, body)
    if problems:
        detail = f"{problems[0].pointer or '/'}: {problems[0].message}"
        raise Unprocessable(detail, code=problems[0].code, errors=problems)
    return body


def _is_suspect(body: bytes) -> bool:
    """Return whether a body may hold what no database stores.

    It may if it contains what such values are written with; well-formed pairs and texts do as well.
    One regular expression for all takes 50 to 70 ms a MiB, this 5 to 7 ms.
    """
    if _ESCAPES.search(body) or any(word in body for word in _WORDS):
        return True
    shapes = body.translate(_SHAPE)
    return any(shape in shapes for shape in _SHAPES)


def find_forbidden(value: Any) -> list[SpecProblem]:
    """Return the places of values and keys that no database stores, at most 20.

    Args:
        value: A parsed JSON document.
    """
    problems: list[SpecProblem] = []
    for pointer, part in _walk(value):
        fault = _describe(part)
        if fault is not None:
            problems.append(SpecProblem(_FORBIDDEN.sub("\ufffd", pointer), *fault))
            if len(problems) == _MAX_SHOWN:
                break
    return problems


def clean(value: Any) -> Any:
    """Return a parsed JSON document without what no database stores.

    U+FFFD replaces NUL and lone surrogates, and null replaces numbers that are not finite.
    """
    if isinstance(value, str):
        return _FORBIDDEN.sub("\ufffd", value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return value


def _describe(value: str | float) -> tuple[str, str] | None:
    """Return the code and the message for a value that no database stores."""
    if isinstance(value, float):
        message = f"{value} is not a finite number; send a number or null"
        return None if math.isfinite(value) else (NOT_FINITE, message)
    match = _FORBIDDEN.search(value)
    if match is None:
        return None
    kind = "a NUL character" if match[0] == "\0" else "half of a surrogate pair"
    return CODE, f"the text has {kind} at position {match.start()}; remove it"


def _walk(value: Any) -> Iterator[tuple[str, str | float]]:
    waiting = [("", value)]
    while waiting:
        pointer, item = waiting.pop()
        if isinstance(item, (str, float)):
            yield pointer, item
        elif isinstance(item, list):
            waiting += [(f"{pointer}/{place}", part) for place, part in enumerate(item)][::-1]
        elif isinstance(item, dict):
            for key, part in reversed(item.items()):
                below = f"{pointer}/{escape_pointer(key)}"
                waiting += [(below, part), (below, key)]


async def _read(receive: Receive) -> bytes | None:
    """Return the whole body; None if the client left before its end."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(body)


def _repair(body: bytes) -> bytes:
    try:
        return json.dumps(clean(load_json(body))).encode()
    except (ValueError, RecursionError):
        return body  # the endpoint reports what is wrong with it


def _find_problems(body: bytes) -> list[SpecProblem]:
    try:
        return find_forbidden(load_json(body))
    except (ValueError, RecursionError):
        return []  # the endpoint reports what is wrong with it


def _is_concerned(scope: Scope) -> bool:
    return (
        scope["type"] == "http"
        and scope["path"].startswith("/v1/")
        and is_json(Headers(scope=scope).get("content-type", ""))
    )


def _replay(body: bytes, receive: Receive) -> Receive:
    has_sent = False

    async def replay() -> Message:
        nonlocal has_sent
        if has_sent:
            return await receive()
        has_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _raise(refusal: HTTPException) -> Receive:
    async def receive() -> Message:
        raise refusal

    return receive
