"""Overhead of a script that does nothing: from its submission until the client sees its exit.

Runs the real stack on this machine with one worker; the code is uploaded beforehand. It measures
a client in this process, and the whole `redkiln run` command, including its start. If the program
`ray` is installed, the same is measured with Ray: a local head, one job after the other, through
the HTTP API of its jobs and with `ray job submit`.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from bench.result import Result, at_most, info, spread
from native.stack import Stack
from redkiln.client import Client
from redkiln.client.bundle import open_bundle
from redkiln.status import JobStatus

JOBS = 15
TARGET_SECONDS = 0.5
SETTLE_SECONDS = 12.0
"""Time for the worker's warm spare to import torch."""


RAY = "http://127.0.0.1:8265"
RAY_ENDS = {"SUCCEEDED", "FAILED", "STOPPED"}
POLL_SECONDS = 0.01


def run() -> list[Result]:
    """Measure on an idle worker, one script at a time."""
    with tempfile.TemporaryDirectory(prefix="bench-scripts-") as name:
        root = Path(name)
        code = root / "code"
        code.mkdir()
        (code / "nothing.py").write_text("pass\n")
        environment = {"REDKILN_SCRIPTS": "on"}
        with (
            Stack(root / "state", environment=environment) as stack,
            Client(stack.url, stack.admin_key) as client,
        ):
            time.sleep(SETTLE_SECONDS)
            bundle = client.push_bundle(open_bundle(code).package)
            seconds = _repeat(lambda: _submit(client, bundle))
            command = [sys.executable, "-m", "redkiln", "run", "--output", str(root / "out")]
            keys = {"REDKILN_URL": stack.url, "REDKILN_KEY": stack.admin_key}
            whole = _repeat(lambda: _call([*command, "--", "python", "nothing.py"], code, **keys))
    how = f"python nothing.py, from submit until the client sees its end; {spread(seconds)}"
    return [
        at_most("scripts/no_op", statistics.median(seconds), "s", TARGET_SECONDS, how),
        info("scripts/no_op_command", statistics.median(whole), "s", _detail("redkiln run", whole)),
        *_ray(),
    ]


def _submit(client: Client, bundle: str) -> None:
    script = {"command": ["python", "nothing.py"], "bundle": bundle}
    job = client.wait(client.submit({"task": "script", "script": script}).id)
    assert job.status is JobStatus.SUCCEEDED, job.reason


def _ray() -> list[Result]:
    ray = shutil.which("ray", path=str(Path(sys.executable).parent)) or shutil.which("ray")
    if ray is None:
        return []
    subprocess.run([ray, "start", "--head", "--port=0"], check=True, capture_output=True)
    try:
        with httpx.Client(base_url=RAY) as http:
            seconds = _repeat(lambda: _submit_to_ray(http))
        command = [ray, "job", "submit", "--address", RAY, "--", "python", "-c", "pass"]
        whole = _repeat(lambda: _call(command, Path.cwd()))
    finally:
        subprocess.run([ray, "stop", "--force"], check=False, capture_output=True)
    how = f"Ray's jobs over HTTP, polled every {POLL_SECONDS * 1000:.0f} ms; {spread(seconds)}"
    return [
        info("scripts/ray_no_op", statistics.median(seconds), "s", how),
        info("scripts/ray_no_op_command", statistics.median(whole), "s", _detail(ray, whole)),
    ]


def _submit_to_ray(http: httpx.Client) -> None:
    asked = http.post("/api/jobs/", json={"entrypoint": "python -c pass"}).raise_for_status()
    job = f"/api/jobs/{asked.json()['submission_id']}"
    while (status := http.get(job).raise_for_status().json()["status"]) not in RAY_ENDS:
        time.sleep(POLL_SECONDS)
    assert status == "SUCCEEDED", status


def _call(command: list[str], folder: Path, **environment: str) -> None:
    environment = {**os.environ, **environment}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)


def _repeat(once: Callable[[], None]) -> list[float]:
    """Return the seconds of each call except the first."""
    seconds = []
    for _ in range(JOBS + 1):
        began = time.perf_counter()
        once()
        seconds.append(time.perf_counter() - began)
    return seconds[1:]


def _detail(command: str, seconds: list[float]) -> str:
    return f"{Path(command).name}, from the command's start to its end; {spread(seconds)}"
