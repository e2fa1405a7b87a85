"""One part of the stack as a child process: in its own session, on a leash, with a log file."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

LEASH = Path(__file__).with_name("leash.py")
SOURCE_DIR = Path(__file__).resolve().parents[1]


class PartFailed(Exception):  # noqa: N818  named by what happened
    """A part ended unexpectedly, or did not become ready."""


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP was received, which stops everything like Ctrl-C."""


class Part:
    """A program of the stack.

    It must be started from the main thread: the kernel ends it with the thread that started it.

    Attributes:
        name: Name for people and for the log file.
        stop_seconds: Time from SIGTERM to SIGKILL.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        log_path: Path,
        stop_seconds: float = 10.0,
    ) -> None:
        self.name = name
        self.log_path = log_path
        self.stop_seconds = stop_seconds
        self._command = list(command)
        self._environment = dict(environment)
        self._popen: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int:
        """Id of the running process."""
        assert self._popen is not None, f"{self.name} was not started"
        return self._popen.pid

    @property
    def exit_status(self) -> int | None:
        """Its exit status; None while it runs."""
        return None if self._popen is None else self._popen.poll()

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._popen is not None and self._popen.poll() is None

    def start(self) -> None:
        """Start the program; its output is appended to its log."""
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        leash = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid())]
        with self.log_path.open("ab") as log:
            self._log_start = log.tell()
            self._popen = subprocess.Popen(
                [*leash, *self._command],
                env=self._environment,
                cwd=SOURCE_DIR,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process still runs."""
        if self.is_running:
            os.kill(self.pid, number)

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for the process to end; return whether it ended in time."""
        if self._popen is None:
            return True
        try:
            self._popen.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """Send SIGTERM, then SIGKILL if the process does not end in time."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        if not self.wait(self.stop_seconds):
            self.kill()

    def kill(self) -> None:
        """SIGKILL."""
        self.signal(signal.SIGKILL)
        self.wait(10.0)

    def restart(self) -> None:
        """Start the process again after it has ended."""
        assert not self.is_running, f"{self.name} is still running"
        self.start()

    def read_log(self) -> str:
        """Return its output since the last start."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def check(self) -> None:
        """Check that the process runs.

        Raises:
            PartFailed: It has ended; the message has the last lines of its log.
        """
        if not self.is_running:
            tail = "\n".join(self.read_log().splitlines()[-15:])
            raise PartFailed(
                f"{self.name} ended with status {self.exit_status}. The last lines of its log "
                f"{self.log_path}:\n{tail}"
            )


def wait_until(is_ready: Callable[[], bool], part: Part, *, timeout_seconds: float) -> None:
    """Wait until a part is ready.

    Raises:
        PartFailed: The part ended first, or took too long.
    """
    deadline = time.monotonic() + timeout_seconds
    while not is_ready():
        part.check()
        if time.monotonic() > deadline:
            raise PartFailed(
                f"{part.name} was not ready within {timeout_seconds:.0f} s. See {part.log_path}"
            )
        time.sleep(0.02)
