"""A small HTTP/1.1 load generator: keep-alive connections without pauses."""

import asyncio
import time
from dataclasses import dataclass
from functools import partial


@dataclass
class Load:
    """Timings of a run of requests.

    Attributes:
        latencies: Seconds of each answered request.
        seconds: Length of the run.
    """

    latencies: list[float]
    seconds: float

    @property
    def requests_per_second(self) -> float:
        """Return the answered requests per second of the run."""
        return len(self.latencies) / self.seconds


class _Connection(asyncio.Protocol):
    """Sends one prepared request repeatedly until its deadline.

    The length of an answer comes from Content-Length, so only the header is parsed.
    """

    def __init__(self, request: bytes, deadline: float, done: asyncio.Future[list[float]]) -> None:
        self._request = request
        self._deadline = deadline
        self._done = done
        self._latencies: list[float] = []
        self._buffer = bytearray()
        self._sent_at = 0.0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._buffer[:end]).lower()
        if not head.startswith(b"http/1.1 200"):
            self._fail(head.split(b"\r\n")[0].decode())
            return
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        if len(self._buffer) < end + 4 + length:
            return
        now = time.perf_counter()
        self._latencies.append(now - self._sent_at)
        self._buffer.clear()
        if now < self._deadline:
            self._send()
        else:
            self._done.set_result(self._latencies)
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._done.done():
            self._fail(f"connection lost: {error}")

    def _send(self) -> None:
        self._sent_at = time.perf_counter()
        self._transport.write(self._request)

    def _fail(self, why: str) -> None:
        self._done.set_exception(RuntimeError(f"the server did not answer with status 200: {why}"))
        self._transport.close()


def run_load(host: str, port: int, path: str, *, connections: int, seconds: float) -> Load:
    """Request one path over several connections for some seconds.

    Raises:
        RuntimeError: An answer had a status other than 200.
    """
    return asyncio.run(_run(host, port, path, connections, seconds))


async def _run(host: str, port: int, path: str, connections: int, seconds: float) -> Load:
    request = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    futures: list[asyncio.Future[list[float]]] = []
    for _ in range(connections):
        done: asyncio.Future[list[float]] = loop.create_future()
        futures.append(done)
        connect = partial(_Connection, request, started + seconds, done)
        await loop.create_connection(connect, host, port)
    answered = [latency for latencies in await asyncio.gather(*futures) for latency in latencies]
    return Load(answered, time.perf_counter() - started)
