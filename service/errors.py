"""The service's errors, each with its HTTP status and a code for machines.

ServiceError
├── BadRequest 400          malformed: not JSON, bad header
├── Unauthorized 401        the key is missing, unknown or revoked
├── Forbidden 403           the key lacks the scope, or the host or origin is foreign
├── NotFound 404
├── Conflict 409            not possible in the current state
│   ├── Superseded          another attempt owns the job
│   └── SequenceGap         events are missing; `expected_seq` is the first one
├── Gone 410
├── PreconditionFailed 412
├── TooLarge 413
├── UnsupportedMedia 415
├── RangeNotSatisfiable 416
├── Unprocessable 422       the request is understood but cannot be carried out
│   └── DigestMismatch      the bytes do not match the announced digest
├── TooManyRequests 429     too much; try again after `Retry-After` seconds, if it is given
├── ProtocolMismatch 426    the worker uses another protocol version
├── Unavailable 503         try again after `Retry-After` seconds
│   └── DatabaseBusy
└── StorageFull 507
"""

# ruff: noqa: N818  errors are named after what went wrong

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, ClassVar

from redkiln.spec.problems import SpecProblem


class ServiceError(Exception):
    """An error that the client can act on; `problems.py` renders it.

    Attributes:
        detail: The problem and the thing to do, for people.
        code: machine-readable kind.
        errors: One entry for each problem in the request.
        headers: Extra response headers.
        extra: Extra members of the problem document.
    """

    status: ClassVar[int] = 500
    default_code: ClassVar[str] = "internal"

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        errors: Sequence[SpecProblem] = (),
        headers: dict[str, str] | None = None,
        **extra: Any,
    ) -> None:
        self.detail = detail
        self.code = code or self.default_code
        self.errors = list(errors)
        self.headers = headers or {}
        self.extra = extra
        super().__init__(detail)

    @property
    def title(self) -> str:
        """The status in words."""
        return HTTPStatus(self.status).phrase


class BadRequest(ServiceError):
    """The request could not be read."""

    status = 400
    default_code = "bad_request"


class Unauthorized(ServiceError):
    """The key is missing, unknown or revoked."""

    status = 401
    default_code = "unauthorized"

    def __init__(self, detail: str, **options: Any) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": "Bearer"}, **options)


class Forbidden(ServiceError):
    """The caller is known but not allowed to do this."""

    status = 403
    default_code = "forbidden"


class NotFound(ServiceError):
    """The resource does not exist."""

    status = 404
    default_code = "not_found"


class Conflict(ServiceError):
    """The request is not possible in the current state."""

    status = 409
    default_code = "conflict"


class Superseded(Conflict):
    """The attempt no longer belongs to its worker, which must stop it and send nothing more."""

    default_code = "superseded"


class SequenceGap(Conflict):
    """Events between the last acknowledged one and the sent ones are missing."""

    default_code = "sequence_gap"

    def __init__(self, *, expected_seq: int) -> None:
        super().__init__(
            f"events are missing; send all events from {expected_seq} on",
            expected_seq=expected_seq,
        )


class Gone(ServiceError):
    """The resource existed and has been deleted for good."""

    status = 410
    default_code = "gone"


class PreconditionFailed(ServiceError):
    """A condition of the request's headers does not hold."""

    status = 412
    default_code = "precondition_failed"


class TooLarge(ServiceError):
    """The body is larger than the limit."""

    status = 413
    default_code = "too_large"


class UnsupportedMedia(ServiceError):
    """The body's content type is not accepted here."""

    status = 415
    default_code = "unsupported_media_type"


class RangeNotSatisfiable(ServiceError):
    """The requested range is outside the content."""

    status = 416
    default_code = "range_not_satisfiable"


class Unprocessable(ServiceError):
    """The request is understood but cannot be carried out."""

    status = 422
    default_code = "unprocessable"


class DigestMismatch(Unprocessable):
    """The received bytes do not match the announced digest."""

    default_code = "digest_mismatch"


class ProtocolMismatch(ServiceError):
    """The worker uses another protocol version."""

    status = 426
    default_code = "protocol_mismatch"


class TooManyRequests(ServiceError):
    """The caller sends or has too much at once.

    Args:
        detail: The problem and the thing to do.
        retry_after_seconds: Time after which to try again; None if waiting does not help.
        options: As for `ServiceError`.
    """

    status = 429
    default_code = "too_many_requests"

    def __init__(
        self, detail: str, *, retry_after_seconds: int | None = None, **options: Any
    ) -> None:
        wait = retry_after_seconds
        headers = None if wait is None else {"Retry-After": str(wait)}
        super().__init__(detail, headers=headers, **options)


class Unavailable(ServiceError):
    """The service cannot do this now; the client may try again."""

    status = 503
    default_code = "unavailable"

    def __init__(self, detail: str, *, retry_after_seconds: int = 5, **options: Any) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after_seconds)}, **options)


class DatabaseBusy(Unavailable):
    """The database was locked for too long."""

    default_code = "database_busy"


class StorageFull(ServiceError):
    """The service's disk has too little free space."""

    status = 507
    default_code = "storage_full"
