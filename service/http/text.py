"""Characters that no database stores: NUL and lone surrogates, in every JSON body.

PostgreSQL's text and JSON types cannot hold them: once stored elsewhere, they would make every
query that reads them fail. What users send with them is refused. What workers send is repaired,
because it repeats what a user's program printed, and a refusal would lose the attempt.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from redkiln.spec.problems import SpecProblem, escape_pointer
from service.errors import Unprocessable
from service.http.problems import render_error, request_id_of

CODE = "forbidden_character"
_ESCAPED = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
"""What a body that has such characters must contain; well-formed pairs match as well."""
_FORBIDDEN = re.compile("[\0\ud800-\udfff]")
_WORKERS = ("/v1/attempts/", "/v1/workers/")
_JSON = "application/json"
_MAX_SHOWN = 20


class TextMiddleware:
    """Refuses or repairs JSON bodies whose texts have NUL or lone surrogates."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or not _is_json(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        try:
            body = await _read(receive)
        except HTTPException as refusal:
            await self._app(scope, _raise(refusal), send)  # the application renders it
            return
        if body is None:
            return  # the client has left
        problems: list[SpecProblem] = []
        if _ESCAPED.search(body):
            if scope["path"].startswith(_WORKERS):
                body = _repair(body)
            else:
                problems = find_forbidden(_parse(body))
        if not problems:
            await self._app(scope, _replay(body, receive), send)
            return
        detail = f"{problems[0].pointer or '/'}: {problems[0].message}"
        fault = Unprocessable(detail, code=CODE, errors=problems)
        response = render_error(fault, request_id=request_id_of(scope))
        await response(scope, receive, send)


def find_forbidden(value: Any) -> list[SpecProblem]:
    """Return the places of texts and keys that hold NUL or a lone surrogate, at most 20.

    Args:
        value: A parsed JSON document.
    """
    problems: list[SpecProblem] = []
    for pointer, text in _walk(value):
        match = _FORBIDDEN.search(text)
        if match is not None:
            kind = "a NUL character" if match[0] == "\0" else "half of a surrogate pair"
            message = f"the text has {kind} at position {match.start()}; remove it"
            problems.append(SpecProblem(_FORBIDDEN.sub("\ufffd", pointer), CODE, message))
            if len(problems) == _MAX_SHOWN:
                break
    return problems


def clean(value: Any) -> Any:
    """Return a parsed JSON document with U+FFFD in place of NUL and lone surrogates."""
    if isinstance(value, str):
        return _FORBIDDEN.sub("\ufffd", value)
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return value


def _walk(value: Any) -> Iterator[tuple[str, str]]:
    waiting = [("", value)]
    while waiting:
        pointer, item = waiting.pop()
        if isinstance(item, str):
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
        return json.dumps(clean(json.loads(body))).encode()
    except (ValueError, RecursionError):
        return body  # the endpoint reports what is wrong with it


def _parse(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None  # the endpoint reports what is wrong with it


def _is_json(headers: Headers) -> bool:
    return headers.get("content-type", "").partition(";")[0].strip().lower() == _JSON


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
