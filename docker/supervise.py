"""PID 1 of a container: starts one process, forwards signals to it and reaps orphans.

The kernel makes PID 1 the parent of every orphan in the container, without the default signal
actions. A program that does not expect this would collect zombies and ignore SIGTERM.
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

    Signals are only sent to the command, not to its descendants: it stops them in the right order.
    """
    awaited = FORWARDED | {signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    try:
        child = os.posix_spawnp(
            command[0],
            list(command),
            dict(environment),
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores both; the child must not
        )
    except FileNotFoundError:
        return COMMAND_NOT_FOUND
    while True:
        number = signal.sigwait(awaited)
        if number != signal.SIGCHLD:
            os.kill(child, number)  # not reaped yet, so the id still belongs to this process
        elif (status := reap(child)) is not None:
            return status


def reap(child: int) -> int | None:
    """Reap all processes that have ended; return the exit status of `child` if it is among them."""
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
