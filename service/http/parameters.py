"""Refuses query parameters that no endpoint knows: a misspelt filter would list everything."""

from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError

from redkiln.nearest import suggest

UNKNOWN_PARAMETER = "unknown_parameter"
_FAMILIES = {("GET", "/v1/jobs"): "metadata."}
"""Parameters of an endpoint that are known by how they begin."""


async def refuse_unknown_parameters(request: Request) -> None:
    """Let requests pass whose every query parameter is declared by their endpoint.

    Raises:
        RequestValidationError: with an entry for each other one, and the nearest known name.
    """
    if not request.query_params:
        return
    route = request.scope["route"]
    known = [field.alias for field in route.dependant.query_params]
    family = _FAMILIES.get((request.method, request.url.path))
    errors = [
        _unknown(name, [*known, f"{family}<key>"] if family else known)
        for name in dict.fromkeys(request.query_params)
        if name not in known and not (family and name.startswith(family))
    ]
    if errors:
        raise RequestValidationError(errors)


def _unknown(name: str, known: list[str]) -> dict[str, Any]:
    ending = suggest(name, known) or "; this endpoint has no query parameters"
    message = f"unknown parameter {name!r}{ending}"
    return {"type": UNKNOWN_PARAMETER, "loc": ("query", name), "msg": message, "input": name}
