"""Runs a program that the kernel kills when its parent dies: `leash.py PARENT_PID PROGRAM ARG...`.

It is a separate script because the child itself must request PR_SET_PDEATHSIG, which survives the
exec. It imports only the standard library, so that it takes no time.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Request the signal, check that the parent is still alive, and become the program."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606  # the list is the program


if __name__ == "__main__":
    main()
