"""When a trainer process lives: never longer than its parent, and until SIGTERM asks it to stop.

SIGTERM sets a flag that the training loop reads at each step boundary. Outside the loop there is
nothing to save, so `Stopped` is raised where the code stands.
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
    """SIGTERM was heard; whoever catches it leaves with EXIT_STOPPED."""


class StopSignal:
    """Whether this process was asked to checkpoint and leave."""

    def __init__(self) -> None:
        self.requested = False
        self._deferred = False

    def install(self) -> None:
        """Hear SIGTERM from now on."""
        signal.signal(signal.SIGTERM, self._on_sigterm)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Within it SIGTERM only sets `requested`; a stop heard before raises at once.

        Raises:
            Stopped: SIGTERM came before.
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
    """Have the kernel kill this process when its parent dies; leave if that has happened.

    Args:
        parent_pid: who started us, as it says itself; None: whoever is the parent now.
    """
    # The kernel forgets it in fork children, so each process asks for itself.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent_pid is not None and os.getppid() != parent_pid:
        raise SystemExit(1)


def leave(status: int) -> NoReturn:
    """End this process at once, when its work is done and its files are closed.

    Taking torch apart costs some 0.7 s, and on some ROCm releases it crashes (ROCm/pytorch#3369).
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
