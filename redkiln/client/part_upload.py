"""Uploads in parts: an interrupted one continues, and what is stored is not sent again."""

import base64
import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from redkiln.client.connection import Connection
from redkiln.client.packing import Package
from redkiln.client.watching import Outage
from redkiln.errors import ApiError, ConnectionFailed
from redkiln.views.dataset import DatasetView, UploadView

FINISH_SECONDS = 600.0
"""Longest wait for the last answer: the service first reads all parts once more."""
PATIENCE_SECONDS = 120.0
"""For how long an upload is tried again while not one more part arrives."""
PARALLEL = 3
"""Parts on their way at once, so that a distant service does not wait between two."""
_BEGUN_AGAIN = frozenset({404, 502, 503, 504})
"""Answers to parts and to the end of an upload, after which it may have become a data set."""


class PartUpload:
    """The upload of one package as a data set.

    Args:
        connection: Connection to the service.
        package: the data.
        sha256: Its digest.
        fields: Name of the data set and table options, as in the body of `POST /v1/uploads`.
        new_report: Makes a function that counts sent bytes, from 0, for each try.
        new_outage: Makes what waits while the service is away.
    """

    def __init__(
        self,
        connection: Connection,
        package: Package,
        *,
        sha256: str,
        fields: Mapping[str, Any],
        new_report: Callable[[], Callable[[int], None]],
        new_outage: Callable[[], Outage] = lambda: Outage(patience_seconds=PATIENCE_SECONDS),
    ) -> None:
        self._connection = connection
        self._package = package
        self._body = {**fields, "sha256": sha256, "size_bytes": package.size_bytes}
        self._new_report = new_report
        self._new_outage = new_outage
        self._has_begun = False
        self._num_received = 0

    def run(self) -> DatasetView:
        """Send what the service lacks; return the data set.

        Raises:
            ApiError: The service refused.
            ConnectionFailed: The service was away for too long.
            PackingError: A file changed while it was read.
        """
        outage = self._new_outage()
        while True:
            before = self._num_received
            try:
                upload = self._begin()
                return upload.dataset or self._send(upload)
            except (ConnectionFailed, ApiError) as error:
                if isinstance(error, ApiError) and not self._may_begin_again(error):
                    raise
                if self._num_received > before or _is_joining(error):
                    outage = self._new_outage()
                outage.note(error)
                outage.wait()

    def _may_begin_again(self, error: ApiError) -> bool:
        return self._has_begun and error.status in _BEGUN_AGAIN

    def _begin(self) -> UploadView:
        self._has_begun = False
        answer = self._connection.request("POST", "/v1/uploads", json=self._body, repeatable=True)
        upload = UploadView.model_validate_json(answer.content)
        self._has_begun = True
        self._num_received = len(upload.received)
        return upload

    def _send(self, upload: UploadView) -> DatasetView:
        report, received = self._new_report(), set(upload.received)
        waiting: deque[Future[int]] = deque()
        is_complete = len(received) == upload.num_parts
        chunks = iter(()) if is_complete else self._package.chunks()
        with ThreadPoolExecutor(PARALLEL) as pool:
            for number, part in enumerate(_split(chunks, upload.part_bytes)):
                if number in received:
                    report(len(part))
                    continue
                if len(waiting) == PARALLEL:
                    report(waiting.popleft().result())
                waiting.append(pool.submit(self._put, upload, number, part))
            for sent in waiting:
                report(sent.result())
        path = f"/v1/uploads/{upload.id}/finish"
        answer = self._connection.request("POST", path, read_seconds=FINISH_SECONDS)
        return DatasetView.model_validate_json(answer.content)

    def _put(self, upload: UploadView, number: int, part: bytes) -> int:
        digest = base64.b64encode(hashlib.sha256(part).digest()).decode()
        self._connection.request(
            "PUT",
            f"/v1/uploads/{upload.id}/parts/{number}",
            content=part,
            headers={
                "Content-Digest": f"sha-256=:{digest}:",
                "Content-Type": "application/octet-stream",
            },
        )
        return len(part)


def _is_joining(error: ConnectionFailed | ApiError) -> bool:
    return isinstance(error, ApiError) and error.code == "upload_finishing"


def _split(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Yield the same bytes in pieces of one size; the last may be shorter."""
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        while len(buffer) >= size:
            yield bytes(buffer[:size])
            del buffer[:size]
    if buffer:
        yield bytes(buffer)
