"""How long a request waits while the service reads a large JSON body of another one."""

import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from bench.result import Result, info
from bench.service.process import run_service, settings_for
from bench.service.server import ASIDE_PATH, AT_ONCE_PATH, BARE_PATH

SIZE_BYTES = 8 * 1024**2
PAUSE_SECONDS = 0.001
NUM_PROBES = 200
HEADERS = {"Content-Type": "application/json"}


def run() -> list[Result]:
    """Measure waits next to a report of points, and next to the worst body of the same size."""
    bodies = {"points": _points(), "empty_lists": _empty_lists()}
    paths = {"aside": ASIDE_PATH, "at_once": AT_ONCE_PATH}
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_for(Path(folder)).model_copy(update={"max_json_bytes": 2 * SIZE_BYTES})
        with run_service(settings) as url:
            return [
                result
                for kind, body in bodies.items()
                for how, path in paths.items()
                for result in _measure(f"bodies/{kind}_{how}", url, path, body)
            ]


def _measure(name: str, url: str, path: str, body: bytes) -> list[Result]:
    """Return the longest wait of small requests while a body is read, and the time to read it."""

    def send() -> None:
        httpx.post(url + path, content=body, headers=HEADERS, timeout=300).raise_for_status()

    seconds, waits = _probe_during(send, url)
    detail = f"{len(waits)} requests next to {len(body) / 1024**2:.1f} MiB"
    return [
        info(f"{name}_longest_wait", 1000 * max(waits), "ms", detail),
        info(f"{name}_seconds", seconds, "s", "until the body's own request is answered"),
    ]


def _probe_during(work: Callable[[], None], url: str) -> tuple[float, list[float]]:
    ended = threading.Event()
    waits: list[float] = []

    def probe() -> None:
        with httpx.Client(base_url=url, timeout=300) as client:
            while not ended.is_set():
                began = time.perf_counter()
                client.get(BARE_PATH).raise_for_status()
                waits.append(time.perf_counter() - began)
                time.sleep(PAUSE_SECONDS)

    thread = threading.Thread(target=probe)
    thread.start()
    while len(waits) < NUM_PROBES:
        time.sleep(PAUSE_SECONDS)
    waits.clear()
    began = time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    ended.set()
    thread.join()
    return seconds, waits


def _points() -> bytes:
    points = [[step, 0.12345 + step] for step in range(400)]
    data = {"points": {"train/loss": points}}
    return _fill({"at": "2026-01-01T00:00:00Z", "kind": "metrics", "data": data})


def _empty_lists() -> bytes:
    data = {"lists": [[]] * 10_000}
    return _fill({"at": "2026-01-01T00:00:00Z", "kind": "message", "data": data})


def _fill(event: dict[str, Any]) -> bytes:
    """Return a report of equal events, of at most `SIZE_BYTES`."""
    text = json.dumps(event, separators=(",", ":"))
    number = SIZE_BYTES // (len(text) + 1) - 1
    return f'{{"first_seq":1,"events":[{",".join([text] * number)}]}}'.encode()
