"""What can go wrong between a client and the service.

RedkilnError
├── ConnectionFailed         the service was not reached, or went away in the middle
├── ApiError                 the service answered with a problem (RFC 9457)
│   ├── Rejected             400, 413, 415, 422: the request is wrong; `errors` says where
│   ├── NotAuthorized        401, 403: no key, a wrong one, or one without the scope
│   ├── NotFound             404, 410
│   ├── Conflict             409: not in this state
│   └── Unavailable          408, 429, 5xx: not now
├── TransferError            bytes that did not arrive as they should
│   └── DigestMismatch       the file is not the one that was published
├── PackingError             a file or folder that cannot be sent as a data set
├── DatasetInvalid           the service looked at a data set and refused it
└── WaitTimeout              what was waited for did not happen in time
"""

# ruff: noqa: N818 - an error is named by what is the matter

from typing import Any

from pydantic import BaseModel, Field

from redkiln.dataset_view import DatasetView


class RedkilnError(Exception):
    """Any failure of the client; its text says what to do next."""


class ConnectionFailed(RedkilnError):
    """The service could not be reached.

    Attributes:
        url: where it was looked for.
    """

    def __init__(self, url: str, reason: str) -> None:
        self.url = url
        self.reason = reason
        super().__init__(
            f"Cannot reach the service at {url} ({reason}). Start it with `./up` (containers) or "
            "`make up`, or say where it is with --url or REDKILN_URL."
        )


class ErrorItem(BaseModel):
    """One mistake in a request and where it is (JSON pointer, RFC 6901)."""

    pointer: str = ""
    code: str = ""
    message: str = ""


class Problem(BaseModel):
    """The body of an error answer (RFC 9457)."""

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str | None = None
    code: str = "unknown"
    errors: list[ErrorItem] = Field(default_factory=list)
    request_id: str | None = None


class ApiError(RedkilnError):
    """The service answered, and not with success.

    Attributes:
        status: HTTP status.
        code: machine-readable cause.
        title: the cause in words, the same for every such error.
        detail: this case in words.
        errors: each mistake, with its JSON pointer.
        request_id: to find the request in the service's log.
        retry_after_seconds: when the service asked to come back.
    """

    def __init__(self, problem: Problem, *, retry_after_seconds: float | None = None) -> None:
        self.problem = problem
        self.status = problem.status
        self.code = problem.code
        self.title = problem.title
        self.detail = problem.detail
        self.errors = problem.errors
        self.request_id = problem.request_id
        self.retry_after_seconds = retry_after_seconds
        super().__init__(_one_line(problem))

    @classmethod
    def of(cls, problem: Problem, *, retry_after_seconds: float | None = None) -> "ApiError":
        """The error of the class that fits the problem's status."""
        return _class_of(problem.status)(problem, retry_after_seconds=retry_after_seconds)


class Rejected(ApiError):
    """The request itself is wrong; sending it again changes nothing."""


class NotAuthorized(ApiError):
    """No key, an unknown one, or one without the scope."""


class NotFound(ApiError):
    """There is no such thing, or there is no longer."""


class Conflict(ApiError):
    """The thing is not in a state that allows it."""


class Unavailable(ApiError):
    """The service cannot do it now."""


class TransferError(RedkilnError):
    """An upload or download did not go through as it should."""


class DigestMismatch(TransferError):
    """The bytes that arrived are not those that were published."""

    def __init__(self, name: str, *, expected: str, actual: str) -> None:
        self.expected = expected
        self.actual = actual
        super().__init__(
            f"{name} arrived damaged: sha256 {actual[:16]}…, published {expected[:16]}…. "
            "Nothing was kept; download it again."
        )


class PackingError(RedkilnError):
    """A file or folder that cannot be packed or sent."""


class DatasetInvalid(RedkilnError):
    """A data set that the service refused.

    Attributes:
        dataset: its view; `errors` says why, file by file.
    """

    def __init__(self, dataset: DatasetView) -> None:
        self.dataset = dataset
        lines = [f"{item.path}: {item.message}" if item.path else item.message
                 for item in dataset.errors[:20]]  # fmt: skip
        super().__init__("\n".join([f"data set {dataset.name} is invalid", *lines]))


class WaitTimeout(RedkilnError):
    """What was waited for did not happen in time."""


def _one_line(problem: Problem) -> str:
    parts = [f"{problem.title or 'HTTP error'} ({problem.status})"]
    if problem.detail:
        parts.append(problem.detail)
    told = problem.detail or ""
    unsaid = [item for item in problem.errors if item.message not in told]
    parts.extend(f"{item.pointer or '/'}: {item.message}" for item in unsaid)
    return "; ".join(parts)


def _class_of(status: int) -> type[ApiError]:
    if status in (401, 403):
        return NotAuthorized
    if status in (404, 410):
        return NotFound
    if status == 409:
        return Conflict
    if status in (408, 429) or status >= 500:
        return Unavailable
    return Rejected


def problem_of(status: int, body: Any, *, text: str = "", reason: str = "") -> Problem:
    """The problem in an error answer, also of a proxy that speaks something else.

    Args:
        status: HTTP status of the answer.
        body: its decoded JSON; None where it is not JSON.
        text: its first words, for what is no problem+json.
        reason: the status in words.
    """
    if isinstance(body, dict) and ("title" in body or "code" in body):
        return Problem.model_validate({**body, "status": status})
    words = " ".join(text.split())[:200] or None
    return Problem(title=reason or f"HTTP {status}", status=status, detail=words, code="http")
