"""Checks uploaded ONNX files in a process with limits."""

import os
import subprocess
import sys
from pathlib import Path

from service.errors import Unprocessable
from service.storage import Storage

SECONDS = 120.0
_SOURCE_DIR = Path(__file__).parents[2]
_DIED = "the file could not be read within the limits of a check (4 GB of memory, 60 s of CPU time)"


def check_model_file(storage: Storage, sha256: str) -> None:
    """Check a stored file.

    Raises:
        Unprocessable: It is not an ONNX file that can be trained.
    """
    with storage.local_copy(sha256) as path:
        problem = _find_problem(path.absolute())
    if problem is not None:
        raise Unprocessable(problem, code="unsupported_onnx")


def _find_problem(path: Path) -> str | None:
    environment = {"PATH": os.defpath, "PYTHONPATH": str(_SOURCE_DIR), "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "service.bundles.onnx_check", str(path), str(os.getpid())]
    try:
        child = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            cwd="/",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _DIED
    if child.returncode != 0:
        return _DIED
    return child.stdout.decode(errors="replace") or None
