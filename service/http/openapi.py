"""Completes the OpenAPI document that FastAPI builds: errors, and the keys of workers.

Every operation may answer with a problem document, which FastAPI does not know. Each names the
statuses that follow from its form; its endpoint names the others that clients should expect.
"""

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from fastapi import FastAPI

from redkiln.errors import Problem
from service.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    ServiceError,
    StorageFull,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unprocessable,
    UnsupportedMedia,
)
from service.http.problems import MEDIA_TYPE

Json = dict[str, Any]
_METHODS = frozenset({"get", "put", "post", "patch", "delete", "head"})
_ATTEMPTS = "/v1/attempts/"
_WORKERS = frozenset({f"/v1/workers/{what}" for what in ("hello", "status", "claim")})
_SCHEMES: Json = {
    "attempt": {
        "type": "http",
        "scheme": "bearer",
        "description": "The token of the attempt, which its claim returned.",
    },
    "worker": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key with scope `worker`; needed on a loopback address too.",
    },
}
_CONTENT: Json = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
_FROM_ALL = (
    BadRequest, Unauthorized, Forbidden, Unprocessable, TooManyRequests, Unavailable,
)  # fmt: skip
"""Errors that every operation may answer with."""
_FROM_NAMES = (NotFound, Gone)
_FROM_BODIES = (TooLarge, UnsupportedMedia)
_FROM_CHANGES = (Conflict, StorageFull)
_OTHERS = {
    "4XX": "The request is refused; `code` says why.",
    "5XX": "The service cannot answer now; 503 carries `Retry-After`, 507 means a full disk.",
}


def install_openapi(app: FastAPI) -> None:
    """Make an application serve the completed document."""
    build = app.openapi

    def openapi() -> Json:
        if app.openapi_schema is None:
            complete(build())
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def complete(document: Json) -> None:
    """Add errors and keys to an OpenAPI document."""
    components = document["components"]
    schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    components["schemas"] |= {**schema.pop("$defs"), "Problem": schema}
    components["securitySchemes"] |= _SCHEMES
    components["responses"] = {
        error.__name__: _build_response(inspect.getdoc(error) or "")
        for error in (*_FROM_ALL, *_FROM_NAMES, *_FROM_BODIES, *_FROM_CHANGES)
    } | {f"Other{status}": _build_response(words) for status, words in _OTHERS.items()}
    for path, item in document["paths"].items():
        for method in _METHODS & item.keys():
            _describe_errors(item[method], _list_errors(method, path))
            if path.startswith(_ATTEMPTS):
                item[method]["security"] = [{"attempt": []}]
            elif path in _WORKERS:
                item[method]["security"] = [{"worker": []}]


def _list_errors(method: str, path: str) -> Iterator[type[ServiceError]]:
    """Yield the errors that follow from the form of an operation."""
    yield from _FROM_ALL
    if "{" in path:
        yield from _FROM_NAMES
    if method in ("post", "put", "patch"):
        yield from _FROM_BODIES  # some read a stream that FastAPI does not know
    if method not in ("get", "head") or path.startswith(_ATTEMPTS):
        yield from _FROM_CHANGES


def _describe_errors(operation: Json, errors: Iterable[type[ServiceError]]) -> None:
    responses = operation["responses"]
    for status, response in responses.items():
        if status.startswith(("4", "5")):
            response["content"] = _CONTENT
    for error in errors:
        responses.setdefault(str(error.status), _refer_to(error.__name__))
    for status in _OTHERS:
        responses[status] = _refer_to(f"Other{status}")


def _build_response(words: str) -> Json:
    return {"description": words.partition("\n\n")[0], "content": _CONTENT}


def _refer_to(name: str) -> Json:
    return {"$ref": f"#/components/responses/{name}"}
