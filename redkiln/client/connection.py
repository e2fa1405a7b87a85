"""HTTP to the service: the key, retries of repeatable requests, and errors as exceptions."""

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from redkiln.client.calls import Answer, Call
from redkiln.errors import ApiError, ConnectionFailed, TransferError, problem_of
from redkiln.settings import ClientSettings, is_this_machine
from redkiln.tls import tls_for
from redkiln.version import __version__

RETRIED_STATUSES = frozenset({408, 429, 502, 503, 504})
READ_SECONDS = 60.0
"""Longest silence within an answer; the service's streams send a heartbeat every 15 s."""


@dataclass(frozen=True)
class RetryPolicy:
    """How often and for how long a request is retried.

    Attributes:
        attempts: Requests in total, including the first.
        base_seconds: Wait after the first failure; it doubles after each further one.
        longest_seconds: Longest wait that the client chooses itself.
        longest_retry_after_seconds: Longest wait that the service may ask for; give up beyond it.
    """

    attempts: int = 4
    base_seconds: float = 0.2
    longest_seconds: float = 5.0
    longest_retry_after_seconds: float = 30.0


@dataclass(frozen=True)
class Failure:
    """How a request failed; `status` is None if there was no answer."""

    status: int | None = None
    retry_after_seconds: float | None = None
    was_sent: bool = True
    code: str | None = None


def retry_delay(
    failure: Failure, *, attempt: int, repeatable: bool, policy: RetryPolicy
) -> float | None:
    """Return the seconds to wait before a request is sent again, or None to give up.

    Args:
        failure: The failure.
        attempt: Number of requests made so far.
        repeatable: Whether sending the request twice has the effect of sending it once.
        policy: Limits of retries.
    """
    if attempt >= policy.attempts or failure.code == "storage_quota":  # waiting frees nothing
        return None
    if failure.was_sent and not repeatable:
        return None
    asked = failure.retry_after_seconds
    # A conflict that names a time ends by itself: a request with the same key is in progress.
    will_pass = failure.status is None or failure.status in RETRIED_STATUSES
    if not will_pass and not (failure.status == 409 and asked is not None):
        return None
    if asked is not None:
        return asked if asked <= policy.longest_retry_after_seconds else None
    return min(policy.longest_seconds, policy.base_seconds * 2.0 ** (attempt - 1))


class Connection:
    """A pool of HTTP connections to one service."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        policy: RetryPolicy | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = settings.url
        self.is_local = is_this_machine(urlsplit(settings.url).hostname or "")
        self._policy = policy or RetryPolicy()
        self._sleep = sleep
        self._http = httpx.Client(transport=transport, **http_options(settings))

    def send(self, call: Call[Answer]) -> Answer:
        """Send a request and return what its answer says.

        Raises:
            ApiError: The service refused.
            ConnectionFailed: There was no answer.
        """
        return call.read(
            self.request(
                call.method,
                call.path,
                params=call.params,
                json=call.json,
                headers=call.headers,
                repeatable=call.repeatable,
            )
        )

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        content: bytes | Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
        read_seconds: float = READ_SECONDS,
    ) -> httpx.Response:
        """Send a request and return the successful answer with its whole body.

        Args:
            method: HTTP method.
            path: Path below the service's address.
            params: Query parameters; None values are left out.
            json: Body to encode as JSON.
            content: Raw body; an iterator is exhausted by the first attempt.
            headers: Additional headers.
            repeatable: Whether the request may be retried; by default all but POST and PATCH may.
            read_seconds: Longest silence before the answer.

        Raises:
            ApiError: The service refused.
            ConnectionFailed: There was no answer.
        """
        if repeatable is None:
            repeatable = is_repeatable(method)
        timeout = httpx.Timeout(READ_SECONDS, connect=5.0, read=read_seconds)
        once = content is not None and not isinstance(content, bytes)
        attempt = 0
        while True:
            attempt += 1
            try:
                with translated(self.url):
                    response = self._http.request(
                        method,
                        path,
                        params=given(params),
                        json=json,
                        content=content,
                        headers=headers,
                        timeout=timeout,
                    )
                    raise_for_status(response)
                    return response
            except (ApiError, ConnectionFailed) as error:
                failure = failure_of(error)
                delay = retry_delay(
                    failure, attempt=attempt, repeatable=repeatable, policy=self._policy
                )
                if delay is None or (once and failure.was_sent):
                    raise
                self._sleep(spread(delay))

    @contextmanager
    def stream(
        self,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        read_seconds: float = READ_SECONDS,
    ) -> Iterator[httpx.Response]:
        """Send a GET, once, whose body the caller reads.

        Raises:
            ApiError: The service refused.
            ConnectionFailed: There was no answer, or it broke off (also inside the block).
        """
        timeout = httpx.Timeout(READ_SECONDS, connect=5.0, read=read_seconds)
        with (
            translated(self.url),
            self._http.stream(
                "GET", path, params=given(params), headers=headers, timeout=timeout
            ) as response,
        ):
            if response.status_code >= 400:
                response.read()
            raise_for_status(response)
            yield response

    def close(self) -> None:
        """Close every connection."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def http_options(settings: ClientSettings) -> dict[str, Any]:
    """Return the options of a pool of connections to a service."""
    headers = {"User-Agent": f"redkiln/{__version__}", "Accept": "application/json"}
    if settings.key:
        headers["Authorization"] = f"Bearer {settings.key}"
    return {
        "base_url": settings.url,
        "headers": headers,
        "timeout": httpx.Timeout(READ_SECONDS, connect=5.0),
        "verify": tls_for(settings.url),
        # Never use a proxy to reach this machine.
        "trust_env": not is_this_machine(urlsplit(settings.url).hostname or ""),
    }


def is_repeatable(method: str) -> bool:
    """Return whether a request may be retried if nothing else is said."""
    return method not in ("POST", "PATCH")


def spread(seconds: float) -> float:
    """Return a somewhat shorter wait, so that clients do not all come back at once."""
    return seconds * random.uniform(0.7, 1.0)  # noqa: S311 - no secret


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Raise errors of the HTTP library as errors of Redkiln."""
    try:
        yield
    except httpx.LocalProtocolError as error:
        raise TransferError(f"the request could not be sent completely: {error}") from error
    except httpx.TransportError as error:
        raise ConnectionFailed(url, _why(error)) from error


def given(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the parameters that have a value."""
    return {name: value for name, value in (params or {}).items() if value is not None} or None


def raise_for_status(response: httpx.Response) -> None:
    """Raise the error that an answer, read whole, describes.

    Raises:
        ApiError: The service refused.
    """
    if response.status_code < 400:
        return
    try:
        body = response.json()
    except ValueError:
        body = None
    problem = problem_of(
        response.status_code, body, text=response.text, reason=response.reason_phrase
    )
    if problem.request_id is None:
        problem.request_id = response.headers.get("X-Request-Id")
    raise ApiError.of(problem, retry_after_seconds=_seconds(response.headers.get("Retry-After")))


def _seconds(value: str | None) -> float | None:
    try:
        return max(0.0, float(value)) if value else None
    except ValueError:
        return None  # an HTTP date; the client's own backoff is used instead


def failure_of(error: ApiError | ConnectionFailed) -> Failure:
    """Return what `retry_delay` needs to know about an error."""
    if isinstance(error, ApiError):
        wait = error.retry_after_seconds
        return Failure(status=error.status, retry_after_seconds=wait, code=error.code)
    unsent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
    return Failure(was_sent=not isinstance(error.__cause__, unsent))


def _why(error: httpx.TransportError) -> str:
    if isinstance(error, httpx.ConnectTimeout):
        return "no answer within 5 s"
    if isinstance(error, httpx.TimeoutException):
        return "it stopped responding"
    if isinstance(error, httpx.ReadError | httpx.WriteError | httpx.RemoteProtocolError):
        return "the connection was lost"

    words = re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or type(error).__name__
    return words[0].lower() + words[1:]
