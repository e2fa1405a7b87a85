"""HTTP/1.1 on a connection, with bounds on what a client can hold open without a whole request.

uvicorn bounds neither the size of headers (with httptools) nor the time until they are complete nor
the connections of a client, so
a few hundred half-sent requests, or one header of 60 MB, would stop the service for everybody.
"""

import asyncio
import resource
from collections import Counter
from http import HTTPStatus
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from service.http.problems import build_problem

MAX_HEAD_BYTES = 64 * 1024
"""Largest request line and headers, in bytes; nginx accepts 32 KiB and Apache 8 KiB a line."""
NUM_FILES = 65536
"""Descriptors that the service asks for."""
HEAD_SECONDS = 20.0
"""Longest time until the headers of a request are complete."""
BODY_SECONDS = 60.0
"""Longest time without a byte of a body that the service waits for."""


LEAST_BODY_RATE = 256
"""Bytes per second of a body, on average, that the service waits for after `BODY_SECONDS`."""
MAX_CONNECTIONS = 2000
"""Most open connections of one client's address; a page or a watcher needs one to three."""
RESERVED_FILES = 256
"""Descriptors that connections leave for files, the database and child processes."""


def bound_connections() -> None:
    """Raise the process's limit of descriptors as far as allowed, and keep connections below it.

    Without this, a few hundred connections would use up a soft limit of 1,024 descriptors, and the
    service could accept nobody else.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = NUM_FILES if hard == resource.RLIM_INFINITY else min(hard, NUM_FILES)
    soft = max(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    BoundedProtocol.most_open = max(16, soft - RESERVED_FILES)


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which also refuses long headers (431) and slow requests (408).

    It closes connections beyond `MAX_CONNECTIONS` of one address, or half of `most_open`, and
    beyond `most_open` of all addresses together (503).
    """

    num_connections: ClassVar[Counter[str]] = Counter()
    most_open: ClassVar[int] = NUM_FILES - RESERVED_FILES
    _address: str | None = None
    _timer: asyncio.TimerHandle | None = None
    _is_in_head = True
    _num_head_bytes = 0
    _num_body_bytes = 0
    _body_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._set_timer(HEAD_SECONDS)
        self._address = self.client[0] if self.client else "unix"
        self.num_connections[self._address] += 1
        most = min(MAX_CONNECTIONS, self.most_open // 2)
        if self.num_connections[self._address] > most:
            self._refuse(503, f"this address has more than {most} open connections")
        elif self.num_connections.total() > self.most_open:
            self._refuse(503, f"the service has more than {self.most_open} open connections")

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up."""
        self._set_timer(None)
        if self._address is not None:
            self.num_connections[self._address] -= 1
            if not self.num_connections[self._address]:
                del self.num_connections[self._address]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse more of a request."""
        if self._is_in_head:
            self._num_head_bytes += len(data)
        elif self._timer is not None:
            self._num_body_bytes += len(data)
            self._set_timer(BODY_SECONDS)
            if self._is_body_slow():
                rate = f"{LEAST_BODY_RATE} bytes/s"
                self._refuse(408, f"the body arrives more slowly than {rate}")
                return
        super().data_received(data)
        if self._is_in_head and self._num_head_bytes > MAX_HEAD_BYTES:
            self._refuse(431, f"the headers are larger than {MAX_HEAD_BYTES} bytes")

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._is_in_head, self._num_head_bytes = True, 0
        self._set_timer(HEAD_SECONDS)

    def on_headers_complete(self) -> None:
        """Begin the body of a request."""
        self._is_in_head = False
        self._num_body_bytes, self._body_since = 0, self.loop.time()
        self._set_timer(BODY_SECONDS)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End a request; the answer may take as long as it needs."""
        self._is_in_head, self._num_head_bytes = True, 0
        self._set_timer(None)
        super().on_message_complete()

    def _is_body_slow(self) -> bool:
        seconds = self.loop.time() - self._body_since
        return seconds > BODY_SECONDS and self._num_body_bytes < seconds * LEAST_BODY_RATE

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._on_time_out)

    def _on_time_out(self) -> None:
        self._timer = None
        if self._is_in_head:
            self._refuse(408, f"the headers did not arrive within {HEAD_SECONDS:g} s")
        elif self.flow.read_paused:
            self._set_timer(BODY_SECONDS)  # the service is slower than the client
        elif self.cycle.response_started:
            self.transport.close()
        else:
            self._refuse(408, f"no byte of the body arrived for {BODY_SECONDS:g} s")

    def _refuse(self, status: int, text: str) -> None:
        if self.transport.is_closing():
            return
        code = HTTPStatus(status).phrase.lower().replace(" ", "_")
        answer = build_problem(status, code=code, detail=text, request_id=None)
        headers = [*answer.raw_headers, (b"connection", b"close")]
        lines = b"".join(b"%s: %s\r\n" % header for header in headers)
        self.transport.write(STATUS_LINE[status] + lines + b"\r\n" + bytes(answer.body))
        self.transport.close()
