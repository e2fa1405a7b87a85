"""The service's errors, each with its HTTP status and a code for machines.

ServiceError
├── BadRequest 400          malformed: not JSON, bad header
├── Unauthorized 401        no key, or not one of ours
├── Forbidden 403           a key without the scope, a foreign host or origin
├── NotFound 404
├── Conflict 409            not in this state
│   ├── Superseded          another attempt owns the job
│   └── SequenceGap         events are missing; `expected_seq` says from where
├── Gone 410
├── PreconditionFailed 412
├── TooLarge 413
├── UnsupportedMedia 415
├── RangeNotSatisfiable 416
├── Unprocessable 422       understood, but cannot be done as it stands
│   └── DigestMismatch      the bytes are not what they were said to be
├── ProtocolMismatch 426    the worker speaks another version
├── Unavailable 503         try again, after `Retry-After` seconds
│   └── DatabaseBusy
└── StorageFull 507
"""

# ruff: noqa: N818  an error is named by what is the matter

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, ClassVar

from redkiln.tasks import SpecProblem


class ServiceError(Exception):
    """An error that its caller can act on; `problems.py` renders it.

    Attributes:
        detail: what was wrong and what is allowed, for people.
        code: machine-readable kind.
        errors: one entry for each mistake in the request.
        headers: extra response headers.
        extra: extra members of the problem document.
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
    """No key, or not one of ours."""

    status = 401
    default_code = "unauthorized"

    def __init__(self, detail: str, **options: Any) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": "Bearer"}, **options)


class Forbidden(ServiceError):
    """Known, but not allowed."""

    status = 403
    default_code = "forbidden"


class NotFound(ServiceError):
    """There is no such thing."""

    status = 404
    default_code = "not_found"


class Conflict(ServiceError):
    """Not possible in the present state."""

    status = 409
    default_code = "conflict"


class Superseded(Conflict):
    """The attempt is no longer its worker's; the worker stops it and changes nothing."""

    default_code = "superseded"


class SequenceGap(Conflict):
    """Events between the last acknowledged one and these are missing."""

    default_code = "sequence_gap"

    def __init__(self, *, expected_seq: int) -> None:
        super().__init__(
            f"events are missing; send all events from {expected_seq} on",
            expected_seq=expected_seq,
        )


class Gone(ServiceError):
    """It was there, and is removed for good."""

    status = 410
    default_code = "gone"


class PreconditionFailed(ServiceError):
    """A condition of the request's headers does not hold."""

    status = 412
    default_code = "precondition_failed"


class TooLarge(ServiceError):
    """The body is over the limit."""

    status = 413
    default_code = "too_large"


class UnsupportedMedia(ServiceError):
    """The body's content type is not accepted here."""

    status = 415
    default_code = "unsupported_media_type"


class RangeNotSatisfiable(ServiceError):
    """The asked-for range lies outside the content."""

    status = 416
    default_code = "range_not_satisfiable"


class Unprocessable(ServiceError):
    """Understood, but it cannot be done as it stands."""

    status = 422
    default_code = "unprocessable"


class DigestMismatch(Unprocessable):
    """The received bytes do not hash to the digest that was announced."""

    default_code = "digest_mismatch"


class ProtocolMismatch(ServiceError):
    """The worker speaks another protocol version."""

    status = 426
    default_code = "protocol_mismatch"


class Unavailable(ServiceError):
    """Not now; the client may try again."""

    status = 503
    default_code = "unavailable"

    def __init__(self, detail: str, *, retry_after_seconds: int = 5, **options: Any) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after_seconds)}, **options)


class DatabaseBusy(Unavailable):
    """The database was locked for too long."""

    default_code = "database_busy"


class StorageFull(ServiceError):
    """There is no room for it on the service's disk."""

    status = 507
    default_code = "storage_full"
