"""A warm child: a process that has done its slow first things and waits for a job directory."""

import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from worker.agent.children import Child, Spawner
from worker.agent.environment import digest_environment
from worker.jobdir import JobDir

log = structlog.get_logger(__name__)


class Spare:
    """At most one waiting process; it dies with the agent, and its stdin tells it what to run.

    Args:
        command: run with `--spare` added.
        log_path: what it says while it waits.
    """

    def __init__(
        self, command: Sequence[str], *, spawner: Spawner, working_dir: Path, log_path: Path
    ) -> None:
        self._command = [*command, "--spare"]
        self._spawner = spawner
        self._working_dir = working_dir
        self._log_path = log_path
        self._lock = threading.Lock()
        self._is_closed = False
        self._child: Child | None = None
        self._digest = ""

    @property
    def pid(self) -> int | None:
        """Number of the waiting process, if there is one."""
        with self._lock:
            return self._child.pid if self._child and not self._child.has_exited else None

    def start(self, environment: Mapping[str, str]) -> None:
        """Have a process wait, unless one does already."""
        with self._lock:
            if self._is_closed or (self._child and not self._child.has_exited):
                return
            self._drop()
            try:
                with self._log_path.open("wb") as output:
                    self._child = self._spawner.spawn(
                        self._command,
                        environment=environment,
                        working_dir=self._working_dir,
                        stdin=subprocess.PIPE,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                    )
            except OSError as error:
                log.warning("no spare", log=str(self._log_path), error=str(error))
                return
            self._digest = digest_environment(environment)

    def give(self, jobdir: JobDir, environment: Mapping[str, str]) -> Child | str:
        """Give the waiting process a job directory.

        Returns:
            The process, which is the caller's from now on; or why there is none that fits.
        """
        with self._lock:
            child, self._child = self._child, None
        if child is None:
            return "no spare was waiting"
        if child.has_exited:
            reason = f"the spare had ended; see {self._log_path.name} in the worker's folder"
        elif self._digest != digest_environment(environment):
            reason = "the spare was started in another environment"
        elif _hand_over(child, jobdir):
            return child
        else:
            reason = "the spare was just ending"
        child.reap()
        return reason

    def drop(self) -> None:
        """End the waiting process."""
        with self._lock:
            self._drop()

    def close(self) -> None:
        """End the waiting process, and start none again."""
        with self._lock:
            self._is_closed = True
            self._drop()

    def _drop(self) -> None:
        if self._child is not None:
            self._child.reap()
        self._child = None


def _hand_over(child: Child, jobdir: JobDir) -> bool:
    assert child.stdin is not None, "spares are started with a pipe"
    try:
        child.stdin.write(f"{jobdir.root}\n".encode())
        child.stdin.flush()
        child.stdin.close()
    except BrokenPipeError:
        return False
    return True
