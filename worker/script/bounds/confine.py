"""Confines itself and then becomes a user's program; runs as a file in its own interpreter.

    python -I -S confine.py ORDER PROGRAM [ARGUMENTS]

ORDER is a `Confinement` as JSON. The module needs only the standard library, so it starts within
milliseconds. It does the following, in this order: die with the parent; gain no privileges; no
core dumps; limits on open files, processes and file size; be the first victim when the host runs
out of memory; access only the named folders (Landlock, if the kernel has it); drop all
capabilities, even if the worker runs as root; leave other processes alone (seccomp, if it has no
separate namespace). Then it becomes the program.

As the first process of a namespace it starts the program as its child instead, and reaps what the
program leaves. It writes `r` to a descriptor when the program exists, and at the end its exit
status and how many processes it left, as JSON.

Source: prctl(2), setrlimit(2), landlock(7), capset(2), seccomp(2), pid_namespaces(7).
"""

import base64
import ctypes
import json
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field

PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
INSTRUCTION_BYTES = 8
"""Size of a `struct sock_filter`."""
LEFTOVER_SECONDS, POLL_SECONDS = 2.0, 0.01
READY = b"r"
"""What the first process of a namespace writes when the program exists."""
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Numbers of Landlock's system calls, which are the same on x86-64 and aarch64."""
RULE_PATH_BENEATH = 1
CAPABILITY_VERSION_3 = 0x20080522
VERSION_FLAG = 1
MAX_OPEN_FILES = 65_536
"""Limit for one process; containers often have a limit of a million or none."""
OOM_SCORE = "800"
"""Out of 1000. Source: proc_pid_oom_score_adj(5)."""
EXIT_CANNOT_RUN, EXIT_NOT_FOUND = 126, 127
"""The same statuses that shells use."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_SYM, TRUNCATE, IOCTL_DEV = 1 << 12, 1 << 14, 1 << 15
READING = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
OWN_PROCESSES_ONLY, SCOPES_SINCE = 1 << 0 | 1 << 1, 6
"""No signals to processes outside, and no connections to their abstract sockets."""
RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many of the 16 rights on files each version of Landlock knows."""


@dataclass(frozen=True)
class Confinement:
    """The limits of a program.

    Attributes:
        parent: PID of the process whose death ends the program.
        readable: Files and folders that it may read and run.
        writable: Files and folders that it may also change.
        max_processes: Limit for its user, including existing processes; None: unchanged.
        max_file_bytes: Largest size of one file.
        calls: Filter of system calls, as base64 of BPF instructions.
        is_first: Whether this is the first process of a namespace; its parent is outside.
        report: Descriptor that the first process writes to.
        may_link: Whether it may create symbolic links, if the kernel has Landlock.
    """

    parent: int
    readable: list[str] = field(default_factory=list)
    writable: list[str] = field(default_factory=list)
    max_processes: int | None = None
    max_file_bytes: int | None = None
    calls: str | None = None
    is_first: bool = False
    report: int | None = None
    may_link: bool = True


class Landlock:
    """The kernel's access restriction for files.

    Attributes:
        version: Version of Landlock; 0 if the kernel does not have it.
    """

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self.version = max(0, self._library.syscall(CREATE_RULESET, None, 0, VERSION_FLAG))

    def restrict(self, readable: list[str], writable: list[str], *, may_link: bool = True) -> None:
        """Prevent this process and all its children from opening anything else.

        Raises:
            OSError: The kernel refuses.
        """
        known = (1 << RIGHTS.get(self.version, 16)) - 1
        scoped = OWN_PROCESSES_ONLY if self.version >= SCOPES_SINCE else 0
        # struct landlock_ruleset_attr: files, network, scopes; older kernels know only the first.
        handled = (ctypes.c_uint64 * 3)(known, 0, scoped)
        size = ctypes.sizeof(handled) if scoped else ctypes.sizeof(ctypes.c_uint64)
        ruleset = self._call(CREATE_RULESET, ctypes.byref(handled), size, 0)
        writing = known if may_link else known & ~MAKE_SYM
        for paths, rights in ((readable, READING), (writable, writing)):
            for path in paths:
                self._allow(ruleset, path, rights & known)
        self._call(RESTRICT_SELF, ruleset, 0)
        os.close(ruleset)

    def _allow(self, ruleset: int, path: str, rights: int) -> None:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return  # a missing path needs no permission
        try:
            if not os.path.isdir(path):  # noqa: PTH112  importing pathlib takes too long
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
    """Confine this process and become the program; return an exit status only on failure."""
    order = Confinement(**json.loads(arguments[0]))
    program = arguments[1:]
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if not order.is_first and os.getppid() != order.parent:
        return EXIT_CANNOT_RUN  # the parent died before prctl was called
    library.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, MAX_OPEN_FILES)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write(OOM_SCORE)  # when memory runs out, the kernel kills the script, not the worker
    if order.max_processes is not None:
        _limit(resource.RLIMIT_NPROC, order.max_processes)
    if order.max_file_bytes is not None:
        _limit(resource.RLIMIT_FSIZE, order.max_file_bytes)
    landlock = Landlock()
    if landlock.version:
        landlock.restrict(order.readable, order.writable, may_link=order.may_link)
    _drop_capabilities(library)
    if order.calls is not None:
        _filter_calls(library, base64.b64decode(order.calls))
    if order.is_first:
        return First(program, order.report).run()
    return become(program)


def become(program: list[str]) -> int:
    """Become a program; return an exit status only on failure."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    try:
        os.execvp(program[0], program)  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"redkiln: {program[0]} cannot be run: {error.strerror}\n")
        return EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_CANNOT_RUN


class First:
    """The first process of a namespace: starts a program, and ends what the program leaves.

    Args:
        program: Command line.
        report: Descriptor to write to; None for none.
    """

    def __init__(self, program: list[str], report: int | None) -> None:
        self._program = program
        self._report = report
        self._is_told = False

    def run(self) -> int:
        """Return the program's exit status, as shells do."""
        signal.signal(signal.SIGTERM, self._on_sigterm)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the kernel then keeps it from this process
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        child = os.fork()
        if child == 0:
            if self._report is not None:
                os.close(self._report)
            os._exit(become(self._program))
        self._write(READY)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        status = self._wait_for(child)
        self._write(json.dumps({"status": status, "left": self._end_rest()}).encode())
        return status if status >= 0 else 128 - status

    def _wait_for(self, child: int) -> int:
        while True:
            pid, status = os.wait()
            if pid == child:
                return os.waitstatus_to_exitcode(status)

    def _end_rest(self) -> int:
        """Wait for the remaining processes; return how many processes were ended for it.

        After a signal to stop, its sender decides how long the rest may take.
        """
        left = 0 if self._is_told or not _has_children() else _count_processes()
        if left:
            os.kill(-1, signal.SIGTERM)
        deadline = time.monotonic() + LEFTOVER_SECONDS
        while _has_children() and (self._is_told or time.monotonic() < deadline):
            time.sleep(POLL_SECONDS)
        return left

    def _write(self, what: bytes) -> None:
        if self._report is not None:
            os.write(self._report, what)

    def _on_sigterm(self, *_: object) -> None:
        self._is_told = True


def _has_children() -> bool:
    """Reap children that have ended; return whether others are left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _count_processes() -> int:
    return sum(name.isdecimal() for name in os.listdir("/proc")) - 1  # noqa: PTH208  see above


def _filter_calls(library: ctypes.CDLL, instructions: bytes) -> None:
    """Load a filter of system calls (`struct sock_fprog`)."""
    buffer = ctypes.create_string_buffer(instructions, len(instructions))

    class Program(ctypes.Structure):
        _fields_ = (("num", ctypes.c_ushort), ("instructions", ctypes.c_void_p))

    program = Program(len(instructions) // INSTRUCTION_BYTES, ctypes.addressof(buffer))
    if library.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _drop_capabilities(library: ctypes.CDLL) -> None:
    """Drop root's capabilities, so that it cannot read other processes' memory."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if library.capset(ctypes.byref(header), ctypes.byref(nothing)) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _limit(what: int, value: int) -> None:
    """Lower a limit, but never raise it."""
    _soft, hard = resource.getrlimit(what)
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with suppress(ValueError):  # the limit is below the current use
        resource.setrlimit(what, (bound, bound))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
