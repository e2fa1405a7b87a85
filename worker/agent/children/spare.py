"""A warm child: a process that has finished its slow imports and waits for a job directory."""

import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from worker.agent.children.children import Child, Spawner
from worker.agent.children.environment import digest_environment
from worker.jobdir import EXPORTER_VARIABLE, JobDir

log = structlog.get_logger(__name__)


class Spare:
    """At most one waiting process. It dies with the agent, and reads from stdin what to run.

    Its stdin is a socket. The leases of the job's GPUs are taken long after the process started,
    so it cannot inherit them and receives them over this socket.

    Args:
        command: Command to run; `--spare` is appended.
        log_path: File that receives the process's output while it waits.
        is_asked: Whether the process answers requests of the job's trainer while it waits
            (`connect`).
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        spawner: Spawner,
        working_dir: Path,
        log_path: Path,
        is_asked: bool = False,
    ) -> None:
        self._command = [*command, "--spare"]
        self._is_asked = is_asked
        self._spawner = spawner
        self._working_dir = working_dir
        self._log_path = log_path
        self._lock = threading.Lock()
        self._is_closed = False
        self._child: Child | None = None
        self._channel: socket.socket | None = None
        self._requests: socket.socket | None = None
        self._digest = ""

    @property
    def pid(self) -> int | None:
        """PID of the waiting process, if there is one."""
        with self._lock:
            return self._child.pid if self._child and not self._child.has_exited else None

    def start(self, environment: Mapping[str, str]) -> None:
        """Start a waiting process, unless there is one already."""
        with self._lock:
            if self._is_closed or (self._child and not self._child.has_exited):
                return
            self._drop()
            self._digest = digest_environment(environment)
            self._channel, theirs = socket.socketpair()
            self._requests, asked = socket.socketpair() if self._is_asked else (None, None)
            named = {} if asked is None else {EXPORTER_VARIABLE: str(asked.fileno())}
            try:
                with self._log_path.open("wb") as output:
                    self._child = self._spawner.spawn(
                        self._command,
                        environment={**environment, **named},
                        working_dir=self._working_dir,
                        stdin=theirs.fileno(),
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        inherited=() if asked is None else (asked.fileno(),),
                    )
            except OSError as error:
                log.warning("could not start a spare", log=str(self._log_path), error=str(error))
                self._drop()
            finally:
                theirs.close()
                if asked is not None:
                    asked.close()

    def connect(self, environment: Mapping[str, str]) -> socket.socket | None:
        """Return a socket over which a job's trainer may ask the waiting process.

        Args:
            environment: Environment that the job needs the process to run in.

        Returns:
            The socket, for the caller to close; None if no suitable process waits.
        """
        with self._lock:
            if self._requests is None or self._child is None or self._child.has_exited:
                return None
            if self._digest != digest_environment(environment):
                return None
            return self._requests.dup()

    def give(
        self, jobdir: JobDir, environment: Mapping[str, str], *, descriptors: Sequence[int] = ()
    ) -> Child | str:
        """Give the waiting process a job directory.

        Args:
            jobdir: Job directory that already contains its order.
            environment: Environment that the job has to run in.
            descriptors: Descriptors of which the process receives duplicates: the job's GPU
                leases, and the socket of an exporter (`connect`).

        Returns:
            The process, which the caller now owns, or the reason why no spare could be used.
        """
        with self._lock:
            child, self._child = self._child, None
            channel, self._channel = self._channel, None
            self._close_requests()
        if child is None or channel is None:
            return "no spare was waiting"
        with channel:
            if child.has_exited:
                reason = f"the spare had exited; see {self._log_path.name} in the worker's folder"
            elif self._digest != digest_environment(environment):
                reason = "the spare was started with a different environment"
            elif _hand_over(channel, jobdir, descriptors):
                return child
            else:
                reason = "the spare exited during the hand-over"
        child.reap()
        return reason

    def drop(self) -> None:
        """End the waiting process."""
        with self._lock:
            self._drop()

    def close(self) -> None:
        """End the waiting process and start no more."""
        with self._lock:
            self._is_closed = True
            self._drop()

    def _drop(self) -> None:
        if self._child is not None:
            self._child.reap()
        if self._channel is not None:
            self._channel.close()
        self._close_requests()
        self._child = self._channel = None

    def _close_requests(self) -> None:
        if self._requests is not None:
            self._requests.close()
        self._requests = None


def _hand_over(channel: socket.socket, jobdir: JobDir, descriptors: Sequence[int]) -> bool:
    try:
        socket.send_fds(channel, [f"{jobdir.root}\n".encode()], list(descriptors))
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True
