"""Reports what is wrong with bodies that are not JSON, and where."""

import json
from typing import Any, TypeGuard

from redkiln.spec.problems import SpecProblem
from service.errors import BadRequest
from service.http.bodies import load_json

CODE = "malformed_json"


def read_json(body: bytes) -> Any:
    """Parse a body as JSON.

    Raises:
        BadRequest: The body is not JSON; the error says where.
    """
    try:
        return load_json(body)
    except (ValueError, RecursionError) as error:
        raise malformed(error) from None


def check_encoding(body: bytes) -> None:
    """Check that a JSON body is UTF-8, as RFC 8259 requires.

    `json.loads` accepts UTF-16 and UTF-32 as well, in which other checks do not recognise escapes.

    Raises:
        BadRequest: The body has another encoding.
    """
    found = json.detect_encoding(body)
    if not found.startswith("utf-8"):
        message = f"the body is JSON in {found}; send it as UTF-8"
        raise BadRequest(message, code=CODE, errors=[SpecProblem("", CODE, message)])


def is_malformed(cause: BaseException | None) -> TypeGuard[ValueError | RecursionError]:
    """Return whether an error is one that `json.loads` raises."""
    return isinstance(cause, (ValueError, RecursionError))


def malformed(cause: BaseException) -> BadRequest:
    """Return the error for a body on which `json.loads` failed with `cause`."""
    message = f"the body is not JSON: {_describe(cause)}"
    return BadRequest(message, code=CODE, errors=[SpecProblem("", CODE, message)])


def _describe(cause: BaseException) -> str:
    if isinstance(cause, json.JSONDecodeError):
        words = cause.msg[:1].lower() + cause.msg[1:].removesuffix(" at")
        return f"{words} at line {cause.lineno}, column {cause.colno}"
    if isinstance(cause, UnicodeDecodeError):
        return f"invalid {cause.encoding} at byte {cause.start}"
    if isinstance(cause, RecursionError):
        return "it is nested too deeply"
    return "a number in it has too many digits"  # Python's only other reason
