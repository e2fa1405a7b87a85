"""Refuses unknown query parameters, because a misspelt filter would list everything."""

from typing import Any

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError

from redkiln.nearest import suggest

UNKNOWN_PARAMETER = "unknown_parameter"
_FAMILIES = dict.fromkeys(
    [("GET", "/v1/jobs"), ("DELETE", "/v1/jobs"), ("POST", "/v1/jobs/cancel")], "metadata."
)
"""Prefixes of the parameters that an endpoint accepts, by method and path."""


async def refuse_unknown_parameters(request: Request) -> None:
    """Check that the endpoint declares every query parameter of a request.

    Raises:
        RequestValidationError: A parameter is unknown; its entry names the nearest known one.
    """
    if not request.query_params:
        return
    route = request.scope["route"]
    known = _names_of(route.dependant)
    family = _FAMILIES.get((request.method, request.url.path))
    errors = [
        _unknown(name, [*known, f"{family}<key>"] if family else known)
        for name in dict.fromkeys(request.query_params)
        if name not in known and not (family and name.startswith(family))
    ]
    if errors:
        raise RequestValidationError(errors)


def _names_of(dependant: Dependant) -> list[str]:
    """Return the names of the parameters that an endpoint and its dependencies declare."""
    shared = [name for used in dependant.dependencies for name in _names_of(used)]
    return shared + [field.alias for field in dependant.query_params]


def _unknown(name: str, known: list[str]) -> dict[str, Any]:
    ending = suggest(name, known) or "; this endpoint has no query parameters"
    message = f"unknown parameter {name!r}{ending}"
    return {"type": UNKNOWN_PARAMETER, "loc": ("query", name), "msg": message, "input": name}
