"""Renders every error as RFC 9457 problem details, and gives every request its id."""

import json
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from redkiln.spec.problems import MOST_PROBLEMS, SpecProblem, find_problems, plain_message
from service.errors import BadRequest, ServiceError
from service.http.malformed import is_malformed, malformed
from service.http.parameters import UNKNOWN_PARAMETER
from service.http.problem_codes import type_of
from service.ids import new_id

log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"
_TITLES = {"invalid_spec": "The spec is wrong"}
"""Titles of codes for which the status in words says too little."""
MOST_SHOWN = MOST_PROBLEMS
"""Most faults of one request that an answer lists."""
MAX_DETAIL_CHARS, MAX_FAULT_CHARS = 10_000, 1_000
"""Most characters of an answer's detail, and of a fault's place and message."""
_METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
_REQUEST_ID = "redkiln.request_id"
_ACCEPTED_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestMiddleware:
    """Gives each request an id, adds it to the logs, and renders unexpected errors as 500."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        wanted = Headers(scope=scope).get("x-request-id", "")
        request_id = wanted if _ACCEPTED_ID.fullmatch(wanted) else new_id("req")
        scope[_REQUEST_ID] = request_id
        has_started = False

        async def send_with_id(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                if _has_nul(scope):
                    detail = "the path or query contains a NUL character; remove it"
                    fault = BadRequest(detail, code="nul_character")
                    response = render_error(fault, request_id=request_id)
                    await response(scope, receive, send_with_id)
                    return
                await self._app(scope, receive, send_with_id)
            except ClientDisconnect:
                log.info("client_left", path=scope["path"])  # there is nobody to answer
            except Exception:
                log.exception("unexpected_error", path=scope["path"])
                if has_started:
                    raise
                detail = "internal error; look for the request id in the service's log"
                response = build_problem(500, code="internal", detail=detail, request_id=request_id)
                await response(scope, receive, send_with_id)


def install_problem_handlers(app: FastAPI) -> None:
    """Render every error of an application as a problem document with a request id."""
    app.add_exception_handler(ServiceError, _handle_service_error)
    app.add_exception_handler(HTTPException, _handle_http_exception)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)


def build_problem(
    status: int,
    *,
    code: str,
    detail: str,
    request_id: str | None,
    errors: Sequence[dict[str, Any]] = (),
    headers: dict[str, str] | None = None,
    extra: dict[str, Any] | None = None,
) -> Response:
    """Build a problem document."""
    document = {
        "type": type_of(code),
        "title": _TITLES.get(code) or HTTPStatus(status).phrase,
        "status": status,
        "detail": _shorten(detail, MAX_DETAIL_CHARS),
        "code": code,
        "errors": [
            {name: _shorten(value, MAX_FAULT_CHARS) for name, value in fault.items()}
            for fault in errors[:MOST_SHOWN]
        ],
        "request_id": request_id,
        **(extra or {}),
    }
    return Response(json.dumps(document), status, headers, MEDIA_TYPE)


def _shorten(value: Any, max_chars: int) -> Any:
    """Return a text that repeats what a client sent without its end; another value as it is."""
    is_long = isinstance(value, str) and len(value) > max_chars
    return f"{value[:max_chars]} ..." if is_long else value


def render_error(error: ServiceError, *, request_id: str | None) -> Response:
    """Render a service error as a problem document; middleware uses this before routing."""
    return build_problem(
        error.status,
        code=error.code,
        detail=error.detail,
        request_id=request_id,
        errors=[_entry(problem) for problem in error.errors],
        headers=error.headers,
        extra=error.extra,
    )


def request_id_of(scope: Scope) -> str | None:
    """Return the id that `RequestMiddleware` gave to a request."""
    request_id: str | None = scope.get(_REQUEST_ID)
    return request_id


def _has_nul(scope: Scope) -> bool:
    """Return whether a path or query contains NUL, which PostgreSQL's text type cannot store."""
    return "\0" in scope["path"] or b"%00" in scope["query_string"]


def _handle_service_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    return render_error(error, request_id=request_id_of(request.scope))


def _handle_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 400 and is_malformed(error.__cause__):
        return _handle_service_error(request, malformed(error.__cause__))
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_allowed_methods(request)) or headers.get("Allow", "")
    return build_problem(
        error.status_code,
        code=HTTPStatus(error.status_code).phrase.lower().replace(" ", "_"),
        detail=_describe(error, request, allowed=headers.get("Allow", "")),
        request_id=request_id_of(request.scope),
        headers=headers,
    )


def _allowed_methods(request: Request) -> list[str]:
    """Return all methods of a path: the router names only those of the first route that fits."""
    found = []
    for method in _METHODS:
        scope = {**request.scope, "method": method}
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes):
            found.append(method)
    return found


def _describe(error: HTTPException, request: Request, *, allowed: str) -> str:
    """Return the error's own text, or what to do if the router has only its standard phrase."""
    path = request.url.path
    if error.status_code == HTTPStatus.NOT_FOUND and error.detail == HTTPStatus.NOT_FOUND.phrase:
        return f"there is nothing at {path}; /docs lists every path of the API"
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return f"{path} does not accept {request.method}; use {allowed} (see /docs)"
    return str(error.detail)


def _handle_validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    if is_malformed(error.__cause__):
        return _handle_service_error(request, malformed(error.__cause__))
    items = error.errors()[:MOST_SHOWN]
    entries = [_validation_entry(item) for item in items if item["loc"][0] != "body"]
    entries += _body_entries(request, [item for item in items if item["loc"][0] == "body"])
    is_unknown = {entry["code"] for entry in entries} == {UNKNOWN_PARAMETER}
    return build_problem(
        422,
        code=UNKNOWN_PARAMETER if is_unknown else "invalid_request",
        detail="; ".join(
            f"{e.get('parameter', e['pointer']) or '/'}: {e['message']}" for e in entries
        ),
        request_id=request_id_of(request.scope),
        errors=entries,
    )


def _entry(problem: SpecProblem) -> dict[str, str]:
    return {"pointer": problem.pointer, "code": problem.code, "message": problem.message}


def _validation_entry(item: Any) -> dict[str, str]:
    place, *rest = item["loc"]
    parameter = str(rest[0]) if rest else str(place)
    message = plain_message(item["msg"])
    return {"pointer": "", "code": item["type"], "message": message, "parameter": parameter}


def _body_entries(request: Request, items: list[Any]) -> list[dict[str, str]]:
    """Describe problems in a body with the same wording as problems in a spec."""
    field = getattr(request.scope.get("route"), "body_field", None)
    model = field.field_info.annotation if field is not None else None
    below = [{**item, "loc": item["loc"][1:]} for item in items]
    if isinstance(model, type) and issubclass(model, BaseModel):
        return [_entry(problem) for problem in find_problems(below, model)]
    return [
        {
            "pointer": "".join(f"/{part}" for part in item["loc"]),
            "code": item["type"],
            "message": plain_message(item["msg"]),
        }
        for item in below
    ]
