"""Processes that a measurement starts; they end with it, however it ends."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from worker.hardware.leases import inherited_leases

SOURCE_DIR = Path(__file__).resolve().parents[2]
"""The folder that contains the package `worker`, and in which the processes run."""


@contextmanager
def start_child(
    module: str, arguments: Sequence[str], *, environ: Mapping[str, str]
) -> Iterator["subprocess.Popen[str]"]:
    """Run a module in a process with pipes, which is killed on exit if it still runs.

    It inherits this process's leases of GPUs.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env=dict(environ),
        cwd=SOURCE_DIR,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=inherited_leases(os.environ),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                _close(pipe)


def _close(pipe: object) -> None:
    try:
        pipe.close()  # type: ignore[attr-defined]
    except BrokenPipeError:
        return
