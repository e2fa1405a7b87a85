"""PID 1 of a container: starts one process, passes signals on to it and reaps orphans.

The kernel gives PID 1 every orphan of the container and none of the default signal actions; a
program that expects neither would collect zombies and not hear SIGTERM.
"""

import os
import signal
from collections.abc import Mapping, Sequence

FORWARDED = frozenset(
    {
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
    }
)
COMMAND_NOT_FOUND = 127


def supervise(command: Sequence[str], *, environment: Mapping[str, str]) -> int:
    """Run a command until it ends and return its exit status, 128 + n if signal n ended it.

    Signals go to the command alone, not to its descendants: it knows in which order they stop.
    """
    awaited = FORWARDED | {signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    try:
        child = os.posix_spawnp(
            command[0],
            list(command),
            dict(environment),
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores both, its child need not
        )
    except FileNotFoundError:
        return COMMAND_NOT_FOUND
    while True:
        number = signal.sigwait(awaited)
        if number != signal.SIGCHLD:
            os.kill(child, number)  # not reaped yet, so the number is still this process's
        elif (status := reap(child)) is not None:
            return status


def reap(child: int) -> int | None:
    """Collect every process that has ended; the exit status of `child` if it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            found = code if code >= 0 else 128 - code
