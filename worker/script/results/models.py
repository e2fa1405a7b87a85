"""Runs the ONNX files that a script left, within the script's limits and for a bounded time."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from worker.process.event_log import EventLog
from worker.script.bounds.bounds import Bounds
from worker.script.heartbeat import Heartbeat
from worker.script.program.variables import SECRETS
from worker.script.results.model_check import ModelCheck, read_checks
from worker.script.results.results import Results

CHECK_SECONDS = 600.0
"""Time limit for all files together."""
POLL_SECONDS = 1.0


def check_models(
    results: Results,
    bounds: Bounds,
    event_log: EventLog,
    *,
    seconds: float = CHECK_SECONDS,
) -> dict[str, ModelCheck]:
    """Run each ONNX file and report the results.

    Args:
        results: The script's results.
        bounds: Limits that the script ran in.
        event_log: Receives the findings, and a message while the check is running.
        seconds: Time limit for all files together.
    """
    left = results.models()
    verdicts: dict[str, ModelCheck] = {}
    deadline = time.monotonic() + seconds
    heartbeat = Heartbeat(event_log.message, "checking the ONNX files")
    while left:
        # A file may crash the checking process; then the next process starts after that file.
        output = _check(left, results, bounds, deadline=deadline, beat=heartbeat.beat)
        if output is None:
            break
        found = read_checks(output, left)
        verdicts |= found
        left = left[len(found) :]
    for name in left:
        words = f"not checked within {seconds:.0f} s"
        verdicts[name] = ModelCheck(verified=None, words=words)
    for name, verdict in verdicts.items():
        if verdict.verified is False:
            event_log.warning("unverified", f"{name}: {verdict.words}")
        else:
            is_verified = " is verified" if verdict.verified else ""
            event_log.message(f"{name}{is_verified}: {verdict.words}")
    return verdicts


def _check(
    names: Sequence[str],
    results: Results,
    bounds: Bounds,
    *,
    deadline: float,
    beat: Callable[[], None],
) -> str | None:
    """Return what a checking process prints about files; None if the time is up."""
    paths = [str(results.folder / name) for name in names]
    environ = {name: value for name, value in os.environ.items() if name not in SECRETS}
    environ |= {"PYTHONPATH": str(bounds.paths.own_lib_dir), "REDKILN_OUT": str(results.folder)}
    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen(
            bounds.command([sys.executable, "-m", "worker.script.results.onnx_check", *paths]),
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            pass_fds=[*bounds.descriptors],
        ) as checker,
    ):
        try:
            while time.monotonic() < deadline:
                with suppress(subprocess.TimeoutExpired):
                    checker.wait(timeout=min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))
                    output.seek(0)
                    return output.read().decode(errors="replace")
                beat()
            return None
        finally:
            checker.kill()
