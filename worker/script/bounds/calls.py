"""A filter of system calls that reach other processes of the same user, or hide one's own files.

Without it, a script could end the worker without sending a signal: `prlimit` on its processor
time, its priority, its processors. A script with its own process namespace does not reach
them anyway. It may still make all these calls on itself (PID 0). libseccomp builds the filter.

`sched_setaffinity` on another PID returns success and does nothing: glibc calls it with a thread's
number to start the threads of OpenMP, and would start none if it failed. `PR_SET_DUMPABLE` does
nothing either: a process that sets it hides its open files, whose disk space is counted.

Source: seccomp(2), prlimit(2), setpriority(2), ioprio_set(2), sched_setaffinity(2).
"""

import base64
import errno
import tempfile

PR_SET_DUMPABLE = 4
PRIO_PROCESS = 0
IOPRIO_WHO_PROCESS = 1
BY_FIRST_ARGUMENT = (
    "prlimit64", "sched_setscheduler", "sched_setparam", "sched_setattr", "migrate_pages",
    "move_pages",
)  # fmt: skip
"""Calls whose first argument is a PID."""
BY_KIND = {"setpriority": PRIO_PROCESS, "ioprio_set": IOPRIO_WHO_PROCESS}
"""Calls whose first argument says what their second one names: a process, a group or a user."""


def build_filter(*, has_sandbox: bool = False) -> str | None:
    """Return the filter as base64 of BPF instructions; None if the system has no libseccomp.

    Args:
        has_sandbox: Whether the script has its own process namespace, which hides other
            processes from it.
    """
    try:
        import pyseccomp
    except (ImportError, OSError, RuntimeError):
        return None
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    ignore = pyseccomp.ERRNO(0)
    rules.add_rule(ignore, "prctl", pyseccomp.Arg(0, pyseccomp.EQ, PR_SET_DUMPABLE))
    if not has_sandbox:
        refuse = pyseccomp.ERRNO(errno.EPERM)
        for name in BY_FIRST_ARGUMENT:
            rules.add_rule(refuse, name, pyseccomp.Arg(0, pyseccomp.NE, 0))
        for name, own in BY_KIND.items():
            rules.add_rule(refuse, name, pyseccomp.Arg(0, pyseccomp.NE, own))
            rules.add_rule(refuse, name, pyseccomp.Arg(1, pyseccomp.NE, 0))
        rules.add_rule(ignore, "sched_setaffinity", pyseccomp.Arg(0, pyseccomp.NE, 0))
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return base64.b64encode(file.read()).decode()
