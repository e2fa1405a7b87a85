"""How a warm child waits for its job. Imports no torch, which scripts do not need."""

import os
import socket
import stat
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection, wait
from pathlib import Path

from worker.jobdir import EXPORTER_VARIABLE, LEASES_VARIABLE, JobDir

MAX_LINE_BYTES = 65536
MAX_LEASES = 64
GREETING = b"exporter"
"""First message of an exporter to the trainer that it is connected with."""


def is_job_waiting(descriptor: int = 0) -> bool:
    """Return whether `wait_for_job` would return at once."""
    return bool(wait([descriptor], 0))


def wait_for_job() -> JobDir | None:
    """Print `ready` and wait for a job directory on stdin; None if stdin ends first.

    If stdin is a socket, it also passes the descriptors of the job's GPU leases, and a trainer's
    connection with the exporter. They stay open until this process ends, and its environment names
    them for the processes that it starts.
    """
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    line = _receive() if stat.S_ISSOCK(os.fstat(0).st_mode) else sys.stdin.readline()
    return JobDir(Path(line.rstrip("\n"))) if line.endswith("\n") else None


def _receive() -> str:
    received, held = b"", list[int]()
    with socket.socket(fileno=os.dup(0)) as channel:
        while not received.endswith(b"\n"):
            piece, received_fds, _, _ = socket.recv_fds(channel, MAX_LINE_BYTES, MAX_LEASES)
            if not piece:
                break
            received += piece
            held += received_fds
    sockets = [number for number in held if _is_socket(number)]
    leases = [number for number in held if number not in sockets]
    for name, numbers in ((LEASES_VARIABLE, leases), (EXPORTER_VARIABLE, sockets)):
        os.environ[name] = ",".join(map(str, numbers))
    return received.decode()


def _is_socket(descriptor: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:  # a variable may get further than the descriptor that it names
        return False


def find_connection(environ: Mapping[str, str]) -> Connection | None:
    """Return the socket between trainer and exporter, if this process inherited one."""
    for number in inherited_exporter(environ):
        return Connection(os.dup(number))
    return None


def greet_trainer(environ: Mapping[str, str]) -> Connection | None:
    """Greet the trainer over the exporter's socket and return it.

    Returns None if there is no socket, or if its other end is closed: the exporter has got a job
    that trains nothing before it was ready.
    """
    connection = find_connection(environ)
    if connection is None:
        return None
    try:
        connection.send_bytes(GREETING)
    except OSError:
        connection.close()
        return None
    return connection


def inherited_exporter(environ: Mapping[str, str]) -> tuple[int, ...]:
    """Return the descriptor of that socket, if there is one, as `pass_fds` of other processes."""
    number = environ.get(EXPORTER_VARIABLE, "")
    return (int(number),) if number.isdecimal() and _is_socket(int(number)) else ()


def redirect_output(job_dir: JobDir) -> None:
    """Send stdout and stderr to the job's log from now on, and make stdin empty."""
    sys.stdout.flush()
    sys.stderr.flush()
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    log = os.open(job_dir.log_path, flags, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, log), (2, log)):
        os.dup2(source, target)
    os.close(log)
    os.close(nothing)
