"""Child processes: one long-lived thread starts each in its own process group."""

import os
import queue
import select
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO

Stream = int | IO[bytes] | None


class Child:
    """A process that leads its own session and group.

    The kernel cannot reuse its PID before it is reaped, so a signal never hits another process.
    """

    def __init__(self, popen: "subprocess.Popen[bytes]") -> None:
        self._popen = popen
        self._pidfd: int | None = os.pidfd_open(popen.pid)
        self.stdin = popen.stdin
        self.stdout = popen.stdout

    @property
    def pid(self) -> int:
        """PID of the process, which is also its process group's id."""
        return self._popen.pid

    @property
    def has_exited(self) -> bool:
        """Whether the process has ended, whether or not it was reaped."""
        return self._pidfd is None or self.wait(0)

    def wait(self, timeout_seconds: float, *, wake_fd: int | None = None) -> bool:
        """Wait until the process ends, the timeout expires, or `wake_fd` becomes readable.

        Returns:
            Whether the process has ended.
        """
        if self._pidfd is None:
            return True
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        if wake_fd is not None:
            poll.register(wake_fd, select.POLLIN)
        return any(fd == self._pidfd for fd, _ in poll.poll(max(0.0, timeout_seconds) * 1000))

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the process and everything it started, as far as they still run."""
        if self._pidfd is None:
            return
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return

    def reap(self) -> int:
        """Kill the rest of the group and collect the exit status (negative: the signal)."""
        self.signal_group(signal.SIGKILL)
        status = self._popen.wait()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        for stream in (self.stdin, self.stdout):
            if stream is not None:
                _close_quietly(stream)
        return status


class Spawner:
    """Starts children from one thread that lives as long as this process.

    The kernel sends PR_SET_PDEATHSIG when the *thread* that started a child ends, so a pool's
    threads must not start one.
    """

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[tuple[Future[Child], list[str], dict[str, object]]]
        self._orders = queue.SimpleQueue()
        threading.Thread(target=self._run, name="spawner", daemon=True).start()

    def spawn(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        working_dir: Path,
        stdin: Stream = subprocess.DEVNULL,
        stdout: Stream = subprocess.DEVNULL,
        stderr: Stream = subprocess.DEVNULL,
        inherited: Sequence[int] = (),
    ) -> Child:
        """Start a process in its own session.

        The process inherits the descriptors `inherited` under the same numbers, in addition to its
        standard streams.

        Raises:
            OSError: The program does not exist, or the system cannot start another process.
        """
        future: Future[Child] = Future()
        options: dict[str, object] = {
            "env": {**environment, "REDKILN_PARENT_PID": str(os.getpid())},
            "cwd": working_dir,
            "stdin": stdin,
            "stdout": stdout,
            "stderr": stderr,
            "pass_fds": tuple(inherited),
        }
        self._orders.put((future, list(command), options))
        return future.result()

    def _run(self) -> None:
        while True:
            future, command, options = self._orders.get()
            try:
                popen = subprocess.Popen(command, start_new_session=True, **options)  # type: ignore[call-overload]
                future.set_result(Child(popen))
            except BaseException as error:  # noqa: BLE001  # raised in the thread that called
                future.set_exception(error)


def _close_quietly(stream: IO[bytes]) -> None:
    try:
        stream.close()
    except BrokenPipeError:
        return
