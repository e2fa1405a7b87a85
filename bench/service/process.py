"""A separate service for a benchmark, with temporary state and a free port."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from service.settings import Settings


def settings_for(state_dir: Path) -> Settings:
    """Build the settings of a service with its state in a folder and a currently free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return Settings(bind=f"127.0.0.1:{port}", state_dir=state_dir)


@contextmanager
def run_service(
    settings: Settings, *, on_start: Callable[[int], None] | None = None
) -> Iterator[str]:
    """Run `bench.service.server` as a process and yield its URL once it answers.

    Args:
        settings: Settings of the service.
        on_start: Called with the id of the process.

    Raises:
        RuntimeError: The service did not start.
    """
    environment = {
        **os.environ,
        "REDKILN_BIND": settings.bind,
        "REDKILN_STATE_DIR": str(settings.state_dir),
        "REDKILN_LOG_LEVEL": "error",
        "REDKILN_MAX_JSON_BYTES": str(settings.max_json_bytes),
    }
    url = f"http://{settings.bind}"
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.service.server"], env=environment, stdout=subprocess.DEVNULL
    )
    try:
        if on_start is not None:
            on_start(process.pid)
        _wait_healthy(url, process)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=20)


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _wait_healthy(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the service exited with status {process.returncode}")
        try:
            if httpx.get(f"{url}/healthz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise RuntimeError("the service did not answer within 30 s")
