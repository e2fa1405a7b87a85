"""How a warm child waits for its job, and gets it. Imports no torch: a script's child has none."""

import os
import socket
import stat
import sys
from pathlib import Path

from worker.jobdir import LEASES_VARIABLE, JobDir

MAX_LINE_BYTES = 65536
MAX_LEASES = 64


def wait_for_job() -> JobDir | None:
    """Say `ready` and wait for a job directory on stdin; None when stdin ends first.

    With it come, where stdin is a socket, the descriptors of the job's GPU leases. They stay open
    for as long as this process lives, and its environment names them for those that it starts.
    """
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    line = _receive() if stat.S_ISSOCK(os.fstat(0).st_mode) else sys.stdin.readline()
    return JobDir(Path(line.rstrip("\n"))) if line.endswith("\n") else None


def _receive() -> str:
    received, held = b"", list[int]()
    with socket.socket(fileno=os.dup(0)) as channel:
        while not received.endswith(b"\n"):
            piece, leases, _, _ = socket.recv_fds(channel, MAX_LINE_BYTES, MAX_LEASES)
            if not piece:
                break
            received += piece
            held += leases
    os.environ[LEASES_VARIABLE] = ",".join(map(str, held))
    return received.decode()


def redirect_output(job_dir: JobDir) -> None:
    """From here on stdout and stderr go to the job's log, and stdin is empty."""
    sys.stdout.flush()
    sys.stderr.flush()
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    log = os.open(job_dir.log_path, flags, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, log), (2, log)):
        os.dup2(source, target)
    os.close(log)
    os.close(nothing)
