"""Completes the OpenAPI document that FastAPI builds: errors, and the keys of workers.

Every operation may answer with a problem document, which FastAPI does not know.
"""

from typing import Any

from fastapi import FastAPI

from redkiln.errors import Problem
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
_ERRORS = {
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
    for path, item in document["paths"].items():
        for method in _METHODS & item.keys():
            _describe_errors(item[method]["responses"])
            if path.startswith(_ATTEMPTS):
                item[method]["security"] = [{"attempt": []}]
            elif path in _WORKERS:
                item[method]["security"] = [{"worker": []}]


def _describe_errors(responses: Json) -> None:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status, response in responses.items():
        if status.startswith(("4", "5")):
            response["content"] = content
    for status, words in _ERRORS.items():
        responses.setdefault(status, {"description": words, "content": content})
