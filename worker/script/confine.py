"""Becomes a user's program, within its bounds: run as a file, by an interpreter of its own.

    python -I -S confine.py ORDER PROGRAM [ARGUMENTS]

ORDER is a `Confinement` as JSON. It needs the standard library alone, so that it is there and gone
in some milliseconds. In this order: die with the parent, gain no privileges, no core dumps,
bounds on open files, on processes and on the size of a file, the first to go where the host's
memory ends, no file but those below the named folders (Landlock, where the kernel has it), and no
capabilities, also where the worker runs as root. Then it becomes the program.

Source: prctl(2), setrlimit(2), landlock(7), capset(2).
"""

import ctypes
import json
import os
import resource
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, field

PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Numbers of Landlock's system calls; the same on x86-64 and aarch64."""
RULE_PATH_BENEATH = 1
CAPABILITY_VERSION_3 = 0x20080522
VERSION_FLAG = 1
MAX_OPEN_FILES = 65_536
"""Of one process; containers often have a million or no bound at all."""
OOM_SCORE = "800"
"""Of at most 1000. Source: proc_pid_oom_score_adj(5)."""
EXIT_CANNOT_RUN, EXIT_NOT_FOUND = 126, 127
"""As shells do."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
READING = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
OWN_PROCESSES_ONLY, SCOPES_SINCE = 1 << 0 | 1 << 1, 6
"""No signals to processes outside, and no abstract sockets of theirs."""
RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many rights each version of Landlock knows, of the 16 that concern files."""


@dataclass(frozen=True)
class Confinement:
    """The bounds of a program.

    Attributes:
        parent: whose death ends it.
        readable: files and folders that it may read and run.
        writable: files and folders that it may change, too.
        max_processes: of its user, those that there are already included; None: as it is.
        max_file_bytes: of one file.
    """

    parent: int
    readable: list[str] = field(default_factory=list)
    writable: list[str] = field(default_factory=list)
    max_processes: int | None = None
    max_file_bytes: int | None = None


class Landlock:
    """The kernel's own bound on files.

    Attributes:
        version: 0 where the kernel has none.
    """

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self.version = max(0, self._library.syscall(CREATE_RULESET, None, 0, VERSION_FLAG))

    def restrict(self, readable: list[str], writable: list[str]) -> None:
        """From here on nothing else can be opened, by this process and all that it starts.

        Raises:
            OSError: the kernel refuses.
        """
        known = (1 << RIGHTS.get(self.version, 16)) - 1
        scoped = OWN_PROCESSES_ONLY if self.version >= SCOPES_SINCE else 0
        # struct landlock_ruleset_attr: files, network, scopes; older kernels know the first alone.
        handled = (ctypes.c_uint64 * 3)(known, 0, scoped)
        size = ctypes.sizeof(handled) if scoped else ctypes.sizeof(ctypes.c_uint64)
        ruleset = self._call(CREATE_RULESET, ctypes.byref(handled), size, 0)
        for paths, rights in ((readable, READING), (writable, known)):
            for path in paths:
                self._allow(ruleset, path, rights & known)
        self._call(RESTRICT_SELF, ruleset, 0)
        os.close(ruleset)

    def _allow(self, ruleset: int, path: str, rights: int) -> None:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return  # what is not there needs no leave
        try:
            if not os.path.isdir(path):  # noqa: PTH112  pathlib takes longer to import than all this
                rights &= OF_FILES
            rule = rights.to_bytes(8, sys.byteorder) + place.to_bytes(4, sys.byteorder)
            self._call(ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0)
        finally:
            os.close(place)

    def _call(self, *arguments: object) -> int:
        result: int = self._library.syscall(*arguments)
        if result < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return result


def main(arguments: list[str]) -> int:
    """Confine this process and become the program; an exit status only where that fails."""
    order = Confinement(**json.loads(arguments[0]))
    program = arguments[1:]
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != order.parent:
        return EXIT_CANNOT_RUN  # it has died before it was asked for
    library.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, MAX_OPEN_FILES)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write(OOM_SCORE)  # where memory ends it is the script that goes, not the worker
    if order.max_processes is not None:
        _limit(resource.RLIMIT_NPROC, order.max_processes)
    if order.max_file_bytes is not None:
        _limit(resource.RLIMIT_FSIZE, order.max_file_bytes)
    landlock = Landlock()
    if landlock.version:
        landlock.restrict(order.readable, order.writable)
    _drop_capabilities(library)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        os.execvp(program[0], program)  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"redkiln: {program[0]} cannot be run: {error.strerror}\n")
        return EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_CANNOT_RUN


def _drop_capabilities(library: ctypes.CDLL) -> None:
    """A root without them can be kept from other processes' memory, as everybody else is."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if library.capset(ctypes.byref(header), ctypes.byref(nothing)) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _limit(what: int, value: int) -> None:
    """Lower a bound, never raise it."""
    _soft, hard = resource.getrlimit(what)
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with suppress(ValueError):  # a bound below what is in use already
        resource.setrlimit(what, (bound, bound))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
