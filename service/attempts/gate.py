"""Checks the token of an attempt's request before its body is read.

FastAPI reads and parses a body before it checks who sent it, and a report may have 8 MiB.
"""

import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from service.attempts.tokens import check_token
from service.errors import Unauthorized
from service.http.access import read_bearer
from service.http.problems import render_error, request_id_of

_PATH = re.compile(r"/v1/attempts/(att_[0-9a-z]{22})/.*", re.S)


class TokenMiddleware:
    """Refuses requests below `/v1/attempts/{id}/` that have no token of the attempt, with 401."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        match = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if match is not None:
            try:
                secret = scope["app"].state.services.secret
                check_token(secret, match[1], read_bearer(Headers(scope=scope)))
            except Unauthorized as fault:
                response = render_error(fault, request_id=request_id_of(scope))
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)
