"""A trainer process never outlives its parent, and SIGTERM asks it to stop.

SIGTERM sets a flag that the training loop reads at each step boundary. Outside the loop there is
nothing to save, so `Stopped` is raised immediately.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

PR_SET_PDEATHSIG = 1


class Stopped(BaseException):
    """SIGTERM was received; the handler exits with EXIT_STOPPED."""


class StopSignal:
    """Whether SIGTERM has asked this process to save a checkpoint and exit."""

    def __init__(self) -> None:
        self.requested = False
        self._deferred = False

    def install(self) -> None:
        """Start handling SIGTERM."""
        signal.signal(signal.SIGTERM, self._on_sigterm)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Make SIGTERM only set `requested` inside the block.

        Raises:
            Stopped: SIGTERM was received before the block.
        """
        self._deferred = True
        try:
            if self.requested:
                raise Stopped
            yield
        finally:
            self._deferred = False

    def _on_sigterm(self, _number: int, _frame: FrameType | None) -> None:
        already = self.requested
        self.requested = True
        if not self._deferred and not already:
            raise Stopped


def die_with_parent(parent_pid: int | None) -> None:
    """Have the kernel kill this process when its parent dies; exit if the parent is already dead.

    Args:
        parent_pid: Process id of the parent as it passed it on. None: the current parent.
    """
    # Forked children do not inherit this setting, so each process sets it.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent_pid is not None and os.getppid() != parent_pid:
        raise SystemExit(1)


def leave(status: int) -> NoReturn:
    """End this process immediately; its work must be done and its files closed.

    Unloading torch takes some 0.7 s, and on some ROCm releases it crashes (ROCm/pytorch#3369).
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
