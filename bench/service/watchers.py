"""What a service with many open pages costs: idle streams of the overview and of jobs."""

import asyncio
import os
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from bench.result import Result, at_most
from bench.service.process import cpu_seconds, run_service, settings_for

NUM_WATCHERS = 1_000
NUM_JOBS = 20
SETTLE_SECONDS = 5.0
WATCHED_SECONDS = 20.0
MOST_CPU_PERCENT = 10


def run() -> list[Result]:
    """Measure processor time and memory of a service with 1,000 idle watchers."""
    pids: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_for(Path(folder))
        with run_service(settings, on_start=pids.append) as url:
            with httpx.Client(base_url=url) as client:
                spec = {"dataset": "builtin:digits"}
                job_ids = [
                    client.post("/v1/jobs", json=spec).raise_for_status().json()["id"]
                    for _ in range(NUM_JOBS)
                ]
            paths = ["/v1/overview/events", *(f"/v1/jobs/{id_}/events" for id_ in job_ids)]
            kinds = {"overview": paths[:1], "jobs": paths[1:]}
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
    for task in streams:
        task.cancel()
    await asyncio.gather(*streams, return_exceptions=True)
    detail = f"{NUM_WATCHERS} idle streams of {kind} over {WATCHED_SECONDS:.0f} s"
    return [
        at_most(f"watchers/{kind}_cpu", 100 * share, "% of a core", MOST_CPU_PERCENT, detail),
        at_most(f"watchers/{kind}_memory", memory / 1e6, "MB each", 1, detail),
    ]


async def _open(host: str, port: int, path: str) -> asyncio.Task[None]:
    """Open a stream, and read and forget what it sends."""
    reader, writer = await asyncio.open_connection(host, port)
    headers = f"Host: {host}:{port}\r\nAccept: text/event-stream\r\n"
    writer.write(f"GET {path} HTTP/1.1\r\n{headers}\r\n".encode())
    await writer.drain()
    first = await reader.readline()
    assert b" 200 " in first, first

    async def read() -> None:
        try:
            while await reader.read(65536):
                pass
        finally:
            writer.close()

    return asyncio.create_task(read())


def _memory_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
