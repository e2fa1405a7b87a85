"""The worker's client for `redkiln.protocol`: one HTTP connection pool, typed answers and errors.

    ServiceError
    ├── ServiceAway        not reachable, or cannot answer now: repeat the same call later
    ├── Superseded         this attempt belongs to another worker: stop it and change nothing
    ├── SequenceGap        send the events again from `expected_seq`
    ├── ProtocolMismatch   worker and service are of different releases
    └── Refused            anything else: repeating the call changes nothing

Callers distinguish exactly these cases.
"""

# ruff: noqa: N818  # each name states the fault

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, BinaryIO, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from redkiln.protocol import (
    ArtifactCommit,
    CheckpointCommit,
    CheckpointReceipt,
    ClaimRequest,
    ClaimResponse,
    FinishRequest,
    FinishResponse,
    HelloRequest,
    HelloResponse,
    ReportRequest,
    ReportResponse,
    StatusRequest,
    StatusResponse,
)
from redkiln.tls import tls_for

Answer = TypeVar("Answer", bound=BaseModel)

TIMEOUT = httpx.Timeout(connect=5.0, read=20.0, write=20.0, pool=20.0)
PASSING = {408, 425, 429, 500, 502, 503, 504, 507}
"""Statuses after which the same request may succeed later; 507 clears when disk space is freed."""

MAX_EQUAL_FAULTS = 20
"""Equal internal errors (500) after which a call is given up: the request itself causes them.

With the agent's pauses of up to 10 s this takes about 3 minutes.
"""


class ServiceError(Exception):
    """Any failure of a call."""


class ServiceAway(ServiceError):
    """The service is unreachable or cannot answer now."""


class Superseded(ServiceError):
    """The attempt belongs to another worker, or its job is over."""


class SequenceGap(ServiceError):
    """The service has not received the events before these."""

    def __init__(self, expected_seq: int) -> None:
        self.expected_seq = expected_seq
        super().__init__(f"the service expects events from number {expected_seq} onwards")


class ProtocolMismatch(ServiceError):
    """The service uses another version of the protocol."""


class Refused(ServiceError):
    """The service understood the request and refused it.

    Attributes:
        status: HTTP status.
        code: Machine-readable cause from the problem document.
    """

    def __init__(self, status: int, *, code: str, detail: str) -> None:
        self.status = status
        self.code = code
        super().__init__(f"{detail} ({status} {code})")


class ServiceClient:
    """Calls that use the worker key.

    Args:
        load_key: Reads the key; called again after a refusal, because keys are rotated in place.
    """

    def __init__(
        self,
        base_url: str,
        *,
        load_key: Callable[[], str | None],
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        # No proxy from the environment: a worker connects directly to its service.
        self._http = httpx.Client(
            base_url=base_url,
            timeout=TIMEOUT,
            trust_env=False,
            transport=transport,
            verify=tls_for(base_url),
        )
        self._load_key = load_key
        self._key: str | None = None

    def hello(self, request: HelloRequest) -> HelloResponse:
        """Register this worker after its start.

        Raises:
            ServiceError: See the module's docstring.
        """
        return _parse(HelloResponse, self._call("/v1/workers/hello", request))

    def report_status(self, request: StatusRequest) -> StatusResponse:
        """Report the current state of this worker's hardware.

        Raises:
            ServiceError: See the module's docstring.
        """
        return _parse(StatusResponse, self._call("/v1/workers/status", request))

    def claim(self, request: ClaimRequest) -> ClaimResponse | None:
        """Ask for work; return None if this worker can do none.

        Raises:
            ServiceError: See the module's docstring.
        """
        response = self._call("/v1/workers/claim", request)
        if response.status_code == HTTPStatus.NO_CONTENT:
            return None
        return _parse(ClaimResponse, response)

    def attempt(self, claim: ClaimResponse) -> "AttemptClient":
        """Return a client for a claimed attempt, which shares these connections."""
        return AttemptClient(self._http, attempt_id=claim.attempt_id, token=claim.token)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _call(self, path: str, request: BaseModel) -> httpx.Response:
        self._key = self._key or self._load_key()
        if self._key is None:
            raise ServiceAway("the worker key file does not exist yet")
        response = _send(self._http, "POST", path, token=self._key, content=_json(request))
        if response.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            self._key = None
        _raise_refusal(response)
        return response


class AttemptClient:
    """Calls that use an attempt's token."""

    def __init__(self, http: httpx.Client, *, attempt_id: str, token: str) -> None:
        self._http = http
        self._token = token
        self._path = f"/v1/attempts/{attempt_id}"
        self._faults: dict[str, tuple[str, int]] = {}

    def report(self, request: ReportRequest) -> ReportResponse:
        """Send events and log; receive a command.

        Raises:
            ServiceError: See the module's docstring.
        """
        return _parse(ReportResponse, self._call("POST", "/report", content=_json(request)))

    def commit_checkpoint(self, commit: CheckpointCommit) -> CheckpointReceipt:
        """Make an uploaded checkpoint one that the job can resume from.

        Raises:
            ServiceError: See the module's docstring.
        """
        return _parse(CheckpointReceipt, self._call("POST", "/checkpoints", content=_json(commit)))

    def publish_artifact(self, commit: ArtifactCommit) -> None:
        """Make an uploaded file one of the job's artifacts while the attempt runs.

        Raises:
            ServiceError: See the module's docstring.
        """
        self._call("POST", "/artifacts", content=_json(commit))

    def finish(self, request: FinishRequest) -> FinishResponse:
        """End the attempt.

        Raises:
            ServiceError: See the module's docstring.
        """
        return _parse(FinishResponse, self._call("POST", "/finish", content=_json(request)))

    def has_blob(self, sha256: str) -> bool:
        """Return whether the service has these bytes already.

        Raises:
            ServiceError: See the module's docstring.
        """
        response = _send(self._http, "HEAD", f"{self._path}/blobs/{sha256}", token=self._token)
        # A HEAD has no body that could report a missing attempt; the PUT that follows does.
        if response.status_code == HTTPStatus.NOT_FOUND:
            return False
        _raise_attempt_refusal(response)
        return True

    def put_blob(self, sha256: str, content: BinaryIO | bytes) -> None:
        """Store bytes under their digest.

        Raises:
            ServiceError: See the module's docstring.
        """
        self._call("PUT", f"/blobs/{sha256}", content=content)

    def put_preview(self, content: bytes, *, step: int, media_type: str) -> None:
        """Replace the job's sample predictions.

        Raises:
            ServiceError: See the module's docstring; a service without previews raises `Refused`.
        """
        query = httpx.QueryParams(step=step, media_type=media_type)
        path = f"{self._path}/preview?{query}"
        response = _send(self._http, "PUT", path, token=self._token, content=content)
        _raise_attempt_refusal(response, is_lookup=True)

    @contextmanager
    def open_blob(self, sha256: str, *, start: int = 0) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Stream one of the job's checkpoints, in the form that `open_dataset` yields.

        Raises:
            ServiceError: See the module's docstring.
        """
        with self._stream(f"/blobs/{sha256}", start=start) as opened:
            yield opened

    @contextmanager
    def open_bundle(self, *, start: int = 0) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Stream the script's code, in the form that `open_dataset` yields.

        Raises:
            ServiceError: See the module's docstring.
        """
        with self._stream("/bundle", start=start) as opened:
            yield opened

    @contextmanager
    def open_dataset(self, *, start: int = 0) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Stream the data set as (offset of the first byte, chunks).

        The offset is 0 if the service ignored `start`.

        Raises:
            ServiceError: See the module's docstring.
        """
        with self._stream("/dataset", start=start) as opened:
            yield opened

    @contextmanager
    def open_dataset_index(self, *, start: int = 0) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Stream the data set's index, in the form that `open_dataset` yields.

        Raises:
            ServiceError: See the module's docstring.
        """
        with self._stream("/dataset/index", start=start) as opened:
            yield opened

    def load_dataset_index(self) -> bytes:
        """Return the data set's index as JSON.

        Raises:
            ServiceError: See the module's docstring.
        """
        return self._call("GET", "/dataset/index").content

    def _call(self, method: str, path: str, *, content: Any = None) -> httpx.Response:
        response = _send(self._http, method, self._path + path, token=self._token, content=content)
        self._raise_lasting_fault(method + path, response)
        _raise_attempt_refusal(response)
        return response

    def _raise_lasting_fault(self, call: str, response: httpx.Response) -> None:
        """Raise `Refused` if the service has failed at the same call in the same way too often."""
        if response.status_code != HTTPStatus.INTERNAL_SERVER_ERROR:
            self._faults.pop(call, None)
            return
        code, detail, _ = _problem(response)
        before, times = self._faults.get(call, (detail, 0))
        times = times + 1 if before == detail else 1
        self._faults[call] = (detail, times)
        if times >= MAX_EQUAL_FAULTS:
            message = f"the service failed {times} times in the same way: {detail}"
            raise Refused(response.status_code, code=code, detail=message)

    @contextmanager
    def _stream(self, path: str, *, start: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        headers = {"Authorization": f"Bearer {self._token}", "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        try:
            with self._http.stream("GET", self._path + path, headers=headers) as response:
                if start and response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    yield start, iter(())  # the file is complete already
                    return
                if response.is_error:
                    response.read()
                    _raise_attempt_refusal(response, is_lookup=True)
                is_partial = response.status_code == HTTPStatus.PARTIAL_CONTENT
                yield start if is_partial else 0, response.iter_raw()
        except httpx.TransportError as error:
            raise ServiceAway(f"the download was interrupted: {error!r}") from error


def _json(request: BaseModel) -> bytes:
    return request.model_dump_json().encode()


def _send(
    http: httpx.Client, method: str, path: str, *, token: str, content: Any = None
) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"}
    if content is not None:
        is_upload = method == "PUT"
        headers["Content-Type"] = "application/octet-stream" if is_upload else "application/json"
    try:
        return http.request(method, path, content=content, headers=headers)
    except httpx.TransportError as error:
        raise ServiceAway(f"{http.base_url} does not answer: {error!r}") from error


def _parse(model: type[Answer], response: httpx.Response) -> Answer:
    try:
        return model.model_validate_json(response.content)
    except ValidationError as error:
        # A proxy between the worker and the service answered.
        raise ServiceAway(f"unreadable answer to {response.request.url}") from error


def _raise_attempt_refusal(response: httpx.Response, *, is_lookup: bool = False) -> None:
    endings = {HTTPStatus.UNAUTHORIZED, HTTPStatus.GONE}
    if not is_lookup:
        endings.add(HTTPStatus.NOT_FOUND)  # the job was deleted together with its attempts
    if response.status_code in endings:
        raise Superseded(_problem(response)[1])
    _raise_refusal(response)


def _raise_refusal(response: httpx.Response) -> None:
    if not response.is_error:
        return
    code, detail, body = _problem(response)
    status = response.status_code
    if status in PASSING:
        raise ServiceAway(f"{detail} ({status} {code})")
    if status == HTTPStatus.UPGRADE_REQUIRED:
        raise ProtocolMismatch(detail)
    if status == HTTPStatus.CONFLICT and code == "superseded":
        raise Superseded(detail)
    if status == HTTPStatus.CONFLICT and code == "sequence_gap":
        raise SequenceGap(int(body["expected_seq"]))
    raise Refused(status, code=code, detail=detail)


def _problem(response: httpx.Response) -> tuple[str, str, dict[str, Any]]:
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        return "http", response.reason_phrase, {}
    return str(body.get("code", "http")), str(body.get("detail") or body.get("title", "")), body
