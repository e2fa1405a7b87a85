"""Checks who sends a request before its body is read.

FastAPI reads and parses a body before the endpoint's own check of the caller, so without this gate
anybody who reaches the port could make the service parse megabytes.
"""

import re

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.attempts.tokens import check_token
from service.errors import ServiceError
from service.http.access import check_key, find_caller, has_body, read_bearer
from service.http.problems import render_error, request_id_of
from service.services import Services

_ATTEMPT = re.compile(r"/v1/attempts/([^/]*)(?:/.*)?", re.S)
_WORKER = re.compile(r"/v1/workers/(hello|status|claim)/?")
LOGIN = "/v1/session"
"""The one path below `/v1` that accepts a body without a key: the body is the key."""


class GateMiddleware:
    """Refuses requests below `/v1` whose headers do not show a valid key, token or session.

    Every request of an attempt is checked, other requests if they have a body. Which scope a key
    needs is decided by the endpoint.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            try:
                await _check(scope)
            except ServiceError as fault:
                response = render_error(fault, request_id=request_id_of(scope))
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def _check(scope: Scope) -> None:
    path = scope["path"]
    headers = Headers(scope=scope)
    match = _ATTEMPT.fullmatch(path)
    if match is not None:
        check_token(_services(scope).secret, match[1], read_bearer(headers))
        return
    if not has_body(headers) or not path.startswith("/v1/") or path.rstrip("/") == LOGIN:
        return
    find = check_key if _WORKER.fullmatch(path) else find_caller
    await find(Request(scope), _services(scope))


def _services(scope: Scope) -> Services:
    services: Services = scope["app"].state.services
    return services
