"""What a script costs that does nothing: from its submission until its exit is seen.

The real stack on this machine with one worker, its code sent before. Each way is taken twice: by a
client in this process, and by a command from its start to its end, which pays for its own start.
Where the program `ray` is found, Ray does the same beside it in the same two ways: a local head,
one job after the other, asked over the HTTP interface of its jobs, and by `ray job submit`.
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
"""Until the worker's warm spare has imported torch."""


RAY = "http://127.0.0.1:8265"
RAY_ENDS = {"SUCCEEDED", "FAILED", "STOPPED"}
LOOK_SECONDS = 0.01


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
    how = f"python nothing.py, submit to its end seen by the client; {spread(seconds)}"
    return [
        at_most("scripts/no_op", statistics.median(seconds), "s", TARGET_SECONDS, how),
        info("scripts/no_op_command", statistics.median(whole), "s", _tell("redkiln run", whole)),
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
    how = f"Ray's jobs over HTTP, looked at every {LOOK_SECONDS * 1000:.0f} ms; {spread(seconds)}"
    return [
        info("scripts/ray_no_op", statistics.median(seconds), "s", how),
        info("scripts/ray_no_op_command", statistics.median(whole), "s", _tell(ray, whole)),
    ]


def _submit_to_ray(http: httpx.Client) -> None:
    asked = http.post("/api/jobs/", json={"entrypoint": "python -c pass"}).raise_for_status()
    job = f"/api/jobs/{asked.json()['submission_id']}"
    while (status := http.get(job).raise_for_status().json()["status"]) not in RAY_ENDS:
        time.sleep(LOOK_SECONDS)
    assert status == "SUCCEEDED", status


def _call(command: list[str], folder: Path, **environment: str) -> None:
    environment = {**os.environ, **environment}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)


def _repeat(once: Callable[[], None]) -> list[float]:
    """Seconds of each time but the first."""
    seconds = []
    for _ in range(JOBS + 1):
        began = time.perf_counter()
        once()
        seconds.append(time.perf_counter() - began)
    return seconds[1:]


def _tell(command: str, seconds: list[float]) -> str:
    return f"{Path(command).name}, from the command's start to its end; {spread(seconds)}"
