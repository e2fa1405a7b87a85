"""How long the service takes from its start until it answers, with a database that exists."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from bench.result import Result, at_most, info, spread
from bench.service.process import cpu_seconds, settings_for
from service.settings import Settings

REPEATS = 5
MOST_SECONDS = 2.0


def run() -> list[Result]:
    """Start the service several times; the first start makes the database and does not count."""
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_for(Path(folder))
        starts = [_start(settings) for _ in range(REPEATS + 1)][1:]
    seconds, cpu = ([start[part] for start in starts] for part in (0, 1))
    return [
        at_most("restart/seconds", statistics.median(seconds), "s", MOST_SECONDS, spread(seconds)),
        info("restart/cpu_seconds", statistics.median(cpu), "s", spread(cpu)),
    ]


def _start(settings: Settings) -> tuple[float, float]:
    """Return the seconds, and the processor time, until the service answers.

    Raises:
        RuntimeError: The service has ended.
    """
    environment = {
        **os.environ,
        "REDKILN_BIND": settings.bind,
        "REDKILN_STATE_DIR": str(settings.state_dir),
        "REDKILN_LOG_LEVEL": "error",
    }
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "service"], env=environment)
    try:
        while not _answers(settings.bind):
            if process.poll() is not None:
                raise RuntimeError(f"the service exited with status {process.returncode}")
            time.sleep(0.01)
        return time.perf_counter() - began, cpu_seconds(process.pid)
    finally:
        process.terminate()
        process.wait(timeout=60)


def _answers(bind: str) -> bool:
    try:
        return httpx.get(f"http://{bind}/healthz").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
