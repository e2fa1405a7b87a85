"""What a service with many open pages costs, and how soon they all see an event."""

import asyncio
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from bench.result import Result, at_most, percentile, spread
from bench.service.process import cpu_seconds, run_service, settings_for

NUM_WATCHERS = 1_000
NUM_JOBS = 20
SETTLE_SECONDS = 5.0
WATCHED_SECONDS = 20.0
MOST_CPU_PERCENT = 10
DELAY_SECONDS = 30.0
"""After this time an event that did not arrive ends the measurement."""


def run() -> list[Result]:
    """Measure a service with 1,000 watchers: its processor time, its memory, and its delay."""
    pids: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_for(Path(folder))
        with run_service(settings, on_start=pids.append) as url:
            with httpx.Client(base_url=url) as client:
                spec = {"dataset": "builtin:digits"}
                job_ids = [
                    client.post("/v1/jobs", json=spec).raise_for_status().json()["id"]
                    for _ in range(NUM_JOBS + 1)
                ]
            paths = ["/v1/overview/events", *(f"/v1/jobs/{id_}/events" for id_ in job_ids)]
            kinds = {"overview": paths[:1], "one job": paths[1:2], "jobs": paths[2:]}
            return [
                result
                for kind, watched in kinds.items()
                for result in asyncio.run(_watch(kind, url, watched, pids[0]))
            ]


async def _watch(kind: str, url: str, paths: list[str], pid: int) -> list[Result]:
    memory_before = _memory_bytes(pid)
    address = urlsplit(url)
    streams = [
        await _open(str(address.hostname), address.port or 80, paths[number % len(paths)])
        for number in range(NUM_WATCHERS)
    ]
    await asyncio.sleep(SETTLE_SECONDS)
    cpu_before, started = cpu_seconds(pid), time.perf_counter()
    await asyncio.sleep(WATCHED_SECONDS)
    share = (cpu_seconds(pid) - cpu_before) / (time.perf_counter() - started)
    memory = (_memory_bytes(pid) - memory_before) / NUM_WATCHERS
    delays = await _pause_each(url, streams) if kind != "overview" else []
    for stream in streams:
        stream.reading.cancel()
    await asyncio.gather(*(stream.reading for stream in streams), return_exceptions=True)
    name = kind.replace(" ", "_")
    detail = f"{NUM_WATCHERS} idle streams of {kind} over {WATCHED_SECONDS:.0f} s"
    return [
        at_most(f"watchers/{name}_cpu", 100 * share, "% of a core", MOST_CPU_PERCENT, detail),
        at_most(f"watchers/{name}_memory", memory / 1e6, "MB each", 1, detail),
        *([_delay(name, delays)] if delays else []),
    ]


@dataclass
class _Stream:
    """An open stream of events.

    Attributes:
        path: Path that was requested.
        reading: The task that reads it.
        heard: Time of the next event, by `time.perf_counter`; None if nobody asks.
    """

    path: str
    reading: asyncio.Task[None] = field(init=False)
    heard: asyncio.Future[float] | None = None

    def receive(self, data: bytes) -> None:
        """Note the time of an event, but not of a comment that keeps the stream open."""
        if self.heard is not None and not self.heard.done() and b"data:" in data:
            self.heard.set_result(time.perf_counter())


async def _pause_each(url: str, streams: list[_Stream]) -> list[float]:
    """Pause one queued job after another; return the seconds until each of its streams said so."""
    delays: list[float] = []
    loop = asyncio.get_running_loop()
    async with httpx.AsyncClient(base_url=url) as client:
        for path in sorted({stream.path for stream in streams}):
            arrivals: list[asyncio.Future[float]] = []
            for stream in (each for each in streams if each.path == path):
                stream.heard = loop.create_future()
                arrivals.append(stream.heard)
            started = time.perf_counter()
            answer = await client.post(path.removesuffix("events") + "pause")
            answer.raise_for_status()
            heard = await asyncio.wait_for(asyncio.gather(*arrivals), DELAY_SECONDS)
            delays += [at - started for at in heard]
    return delays


def _delay(name: str, delays: list[float]) -> Result:
    detail = f"from a pause's request until the job's streams say so; s: {spread(delays)}"
    return at_most(f"watchers/{name}_p99", 1000 * percentile(delays, 0.99), "ms", 500, detail)


async def _open(host: str, port: int, path: str) -> _Stream:
    """Open a stream, and note when it sends something."""
    reader, writer = await asyncio.open_connection(host, port)
    headers = f"Host: {host}:{port}\r\nAccept: text/event-stream\r\n"
    writer.write(f"GET {path} HTTP/1.1\r\n{headers}\r\n".encode())
    await writer.drain()
    first = await reader.readline()
    assert b" 200 " in first, first

    stream = _Stream(path)

    async def read() -> None:
        try:
            while data := await reader.read(65536):
                stream.receive(data)
        finally:
            writer.close()

    stream.reading = asyncio.create_task(read())
    return stream


def _memory_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
