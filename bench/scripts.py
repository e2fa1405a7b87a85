"""What a script costs that does nothing: from its submission until its exit is seen.

The real stack on this machine with one worker, its code sent before. Where Ray is installed, the
same through `ray job submit` beside it, as its documentation has it: a local head, one job after
the other, taken from the command's start to its end.
"""

import importlib.util
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.result import Result, at_most, info, spread
from native.stack import Stack
from redkiln.bundle import open_bundle
from redkiln.client import Client
from redkiln.job import JobStatus

JOBS = 15
TARGET_SECONDS = 0.5
SETTLE_SECONDS = 12.0
"""Until the worker's warm spare has imported torch."""


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
            _time_job(client, bundle)
            seconds = [_time_job(client, bundle) for _ in range(JOBS)]
    how = f"python nothing.py, submit to its end seen by the client; {spread(seconds)}"
    ours = at_most("scripts/no_op", statistics.median(seconds), "s", TARGET_SECONDS, how)
    return [ours, *_ray()]


def _time_job(client: Client, bundle: str) -> float:
    script = {"command": ["python", "nothing.py"], "bundle": bundle}
    began = time.perf_counter()
    job = client.wait(client.submit({"task": "script", "script": script}).id)
    seconds = time.perf_counter() - began
    assert job.status is JobStatus.SUCCEEDED, job.reason
    return seconds


def _ray() -> list[Result]:
    command = shutil.which("ray", path=str(Path(sys.executable).parent)) or shutil.which("ray")
    if command is None or importlib.util.find_spec("ray") is None:
        return []
    subprocess.run([command, "start", "--head", "--port=0"], check=True, capture_output=True)
    try:
        seconds = [_time_ray(command) for _ in range(5)]
    finally:
        subprocess.run([command, "stop", "--force"], check=False, capture_output=True)
    how = f"ray job submit -- python -c pass; {spread(seconds)}"
    return [info("scripts/ray_no_op", statistics.median(seconds), "s", how)]


def _time_ray(command: str) -> float:
    began = time.perf_counter()
    job = [command, "job", "submit", "--address", "http://127.0.0.1:8265", "--"]
    subprocess.run([*job, "python", "-c", "pass"], check=True, capture_output=True)
    return time.perf_counter() - began
