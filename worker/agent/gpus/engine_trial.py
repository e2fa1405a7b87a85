"""Finds out in a new process whether an engine opens a device, as a trainer would."""

import os
import subprocess
import sys
from pathlib import Path

import structlog

from worker.agent.children.children import Spawner
from worker.agent.children.environment import build_child_environment
from worker.hardware.masks import HIDE_GPUS

log = structlog.get_logger(__name__)

SECONDS = 60.0
"""Time limit of a trial, which takes about one second."""
SOURCE_DIR = Path(__file__).resolve().parents[3]


def try_device(spawner: Spawner, device: str) -> bool:
    """Return whether a new process opens this device; log it if it does not.

    Args:
        spawner: Starts the process.
        device: Name of the device for `worker.engines.tinygrad_device`.
    """
    child = spawner.spawn(
        (sys.executable, "-m", "worker.engines.trial", device),
        environment=build_child_environment(os.environ, device=HIDE_GPUS, threads=1),
        working_dir=SOURCE_DIR,
        stdout=subprocess.PIPE,
        stderr=None,
    )
    assert child.stdout is not None, "stdout is a pipe"
    # Its output fits into the pipe, so the child can exit before the pipe is read.
    output = child.stdout.read() if child.wait(SECONDS) else b"it took too long"
    is_open = child.reap() == 0
    if not is_open:
        reason = output.decode(errors="replace").strip()
        log.warning("engine device not opened", device=device, reason=reason)
    return is_open
