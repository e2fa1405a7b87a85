"""Runs checks of uploaded files in a process with limits."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from service.turns import Turns

SECONDS = 120.0
_checking = Turns("uploaded files are being checked")
_SOURCE_DIR = Path(__file__).parents[2]


def run_check(module: str, arguments: Sequence[str], *, content: bytes = b"") -> str | None:
    """Return what a checking process prints; None if it broke its limits.

    Args:
        module: Module to run; its last argument is the id of this process.
        arguments: The arguments before that.
        content: Its standard input; the system limits an argument to 128 KiB.

    Raises:
        Unavailable: Too many other files are being checked.
    """
    environment = {"PATH": os.defpath, "PYTHONPATH": str(_SOURCE_DIR), "LANG": "C.UTF-8"}
    try:
        with _checking.take():
            child = subprocess.run(
                [sys.executable, "-m", module, *arguments, str(os.getpid())],
                input=content,
                capture_output=True,
                env=environment,
                cwd="/",
                timeout=SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired:
        return None
    return child.stdout.decode(errors="replace") if child.returncode == 0 else None
