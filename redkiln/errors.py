"""Errors between a client and the service.

RedkilnError
├── ConnectionFailed         the service was not reached, or the connection was lost
├── ApiError                 the service answered with a problem (RFC 9457)
│   ├── Rejected             400, 413, 415, 422: the request is wrong; `errors` says where
│   ├── NotAuthorized        401, 403: no key, an unknown key, or one without the scope
│   ├── NotFound             404, 410
│   ├── Conflict             409: not allowed in the present state
│   └── Unavailable          408, 429, 5xx: temporarily unavailable
├── TransferError            bytes were not transferred correctly
│   └── DigestMismatch       the file differs from the published one
├── PackingError             a file or folder that cannot be sent as a data set
├── DatasetInvalid           the service validated a data set and refused it
├── ModelError               an exported model, or its inputs, cannot be used
└── WaitTimeout              something did not happen in time
UserWarning
└── DatasetWarning           a data set can be used, but may not be what its owner thinks
"""

# ruff: noqa: N818 - an error is named by what is the matter

from typing import Any

from pydantic import BaseModel, Field

from redkiln.advice.places import count_unlisted, list_problems
from redkiln.advice.wording import as_arguments
from redkiln.views.dataset import DatasetView

"""Errors of a data set that the text of an exception lists."""


class RedkilnError(Exception):
    """A failure of the client; its text says what to do next."""


class ConnectionFailed(RedkilnError):
    """The service could not be reached.

    Attributes:
        url: Address that was tried.
    """

    def __init__(self, url: str, reason: str) -> None:
        self.url = url
        self.reason = reason
        super().__init__(
            f"Cannot reach the service at {url} ({reason}). Start it with `./up` (containers) or "
            "`make up`, or give its address: REDKILN_URL, `--url URL` or `Client(url)`."
        )


class ErrorItem(BaseModel):
    """One mistake in a request, and its place (JSON pointer, RFC 6901)."""

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
    """The service answered with an error.

    Attributes:
        status: HTTP status.
        code: Machine-readable cause.
        title: Kind of error in words, the same for all errors of the code.
        detail: Description of this case.
        errors: Each mistake, with its JSON pointer.
        request_id: Id that finds the request in the service's log.
        retry_after_seconds: Wait that the service asked for, or None.
        text: The message as the service wrote it; the error's own names arguments of Python.
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
        self.text = _one_line(problem)
        super().__init__(as_arguments(self.text))

    @classmethod
    def of(cls, problem: Problem, *, retry_after_seconds: float | None = None) -> "ApiError":
        """Return an error of the class that fits the problem's status."""
        return _class_of(problem.status)(problem, retry_after_seconds=retry_after_seconds)


class Rejected(ApiError):
    """The request is wrong; sending it again does not help."""


class NotAuthorized(ApiError):
    """The request has no key, an unknown one, or one without the scope."""


class NotFound(ApiError):
    """The requested object does not exist, or no longer exists."""


class Conflict(ApiError):
    """The object is in a state that does not allow the request."""


class Unavailable(ApiError):
    """The service is temporarily unable to answer."""


class TransferError(RedkilnError):
    """An upload or download failed or was corrupted."""


class DigestMismatch(TransferError):
    """The received bytes differ from the published ones."""

    def __init__(self, name: str, *, expected: str, actual: str) -> None:
        self.expected = expected
        self.actual = actual
        super().__init__(
            f"{name} was corrupted in transit: its sha256 is {actual[:16]}…, but {expected[:16]}… "
            "was published. Nothing was kept; download it again."
        )


class PackingError(RedkilnError):
    """A file or folder that cannot be packed or sent."""


class DatasetInvalid(RedkilnError):
    """A data set that the service refused.

    Attributes:
        dataset: View of the data set; its `errors` say why, file by file.
        text: The message as the service wrote it; the error's own names arguments of Python.
    """

    def __init__(self, dataset: DatasetView) -> None:
        self.dataset = dataset
        lines = [f"{places}: {message}" if places else message
                 for places, message in list_problems(dataset.errors)]  # fmt: skip
        if rest := count_unlisted(dataset.errors):
            lines.append(f"and {rest} more")
        self.text = "\n".join([f"data set {dataset.name} is invalid", *lines])
        super().__init__(as_arguments(self.text))


class DatasetWarning(UserWarning):
    """Doubts about the quality of a data set; it can be trained on, and `warnings` lists them.

    Attributes:
        dataset: View of the data set.
    """

    def __init__(self, dataset: DatasetView) -> None:
        self.dataset = dataset
        lines = dataset.describe_warnings()
        counted = "1 warning" if len(lines) == 1 else f"{len(lines)} warnings"
        super().__init__("\n".join([f"data set {dataset.name} has {counted}:", *lines]))


class ModelError(RedkilnError):
    """An exported model, or what it is given to predict, cannot be used."""


class WaitTimeout(RedkilnError):
    """Something did not happen in the given time."""


def _one_line(problem: Problem) -> str:
    parts = [f"{problem.title or 'HTTP error'} ({problem.status})"]
    if problem.detail:
        parts.append(problem.detail)
    detail = problem.detail or ""
    missing = [item for item in problem.errors if item.message not in detail]
    parts.extend(f"{item.pointer or '/'}: {item.message}" for item in missing)
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
    """Return the problem of an error answer, also for one that is not problem+json.

    Args:
        status: HTTP status of the answer.
        body: Decoded JSON of the answer; None if it is not JSON.
        text: Start of the body, for an answer (of a proxy, say) that is not problem+json.
        reason: Status in words.
    """
    if isinstance(body, dict) and ("title" in body or "code" in body):
        return Problem.model_validate({**body, "status": status})
    words = " ".join(text.split())[:200] or None
    return Problem(title=reason or f"HTTP {status}", status=status, detail=words, code="http")
