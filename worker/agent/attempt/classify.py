"""Why a child died: from its exit status, its output and what the agent did to it.

Also explains what ends an attempt while no child runs: a stop, or an error of the worker itself.
"""

import errno
import signal
from dataclasses import dataclass

from redkiln.failure import FailureCode, JobFailure
from worker.agent.stopping import StopReason
from worker.hardware.health.deaths import Cause, find_line, recognise, recognise_kernel, to_failure
from worker.jobdir import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED


@dataclass(frozen=True)
class Death:
    """Everything known about how a child ended.

    Attributes:
        status: Exit status; negative: the signal that ended it.
        is_complete: Whether the file that marks its work as done exists.
        announced: Failure that the child wrote before it exited.
        stopped_for: Why the agent stopped it, if it did.
        tail: Last lines of its output.
        oom_kills: Number of processes on this host that the kernel killed for memory meanwhile.
        kernel_log: The kernel's messages about this child's GPUs meanwhile, if readable.
        last_step: Optimiser step that it had reached.
    """

    status: int
    is_complete: bool = False
    announced: JobFailure | None = None
    stopped_for: StopReason | None = None
    tail: str = ""
    oom_kills: int = 0
    kernel_log: tuple[str, ...] = ()
    last_step: int | None = None


MAX_TAIL = 2000

CRASHES = {
    signal.SIGSEGV: "Segmentation fault in native code.",
    signal.SIGBUS: "Bus error: shared memory (/dev/shm) or the disk is too small.",
    signal.SIGABRT: "Native code aborted the process.",
    signal.SIGILL: "Illegal instruction: a library was built for another CPU.",
    signal.SIGFPE: "Arithmetic exception in native code.",
}

_STALLED = (
    "The job's process wrote no event for too long (REDKILN_STALL_SECONDS). See the end of its log."
)
_TOO_LONG = (
    "The job ran longer than resources.max_duration_seconds. Raise it, or make the job shorter."
)
STOPS = {
    StopReason.STALLED: (FailureCode.NO_PROGRESS, _STALLED),
    StopReason.TOO_LONG: (FailureCode.MAX_DURATION, _TOO_LONG),
    StopReason.REFUSED: (FailureCode.INTERNAL, "The service refused the worker's report."),
    StopReason.SHUTDOWN: (FailureCode.WORKER_SHUTDOWN, "The worker was shut down."),
    StopReason.PAUSED: (FailureCode.PAUSED, "The job was paused."),
    StopReason.CANCELLED: (FailureCode.CANCELLED, "The job was cancelled."),
    StopReason.SUPERSEDED: (FailureCode.SUPERSEDED, "The attempt was given to another worker."),
}


WANTED = (FailureCode.CANCELLED, FailureCode.PAUSED, FailureCode.WORKER_SHUTDOWN)
"""Stops that a person asked for; the child's last output does not explain them."""


SCRIPTS = (FailureCode.CRASHED, FailureCode.KILLED)
"""Codes for a user's program that a signal ended. The script's supervisor announces them, but it
cannot see the kernel's log. A program that exited with a status has explained itself."""


def judge(death: Death) -> JobFailure | None:
    """Return why the child's work is not done; None if it is, even if it crashed at exit."""
    if death.is_complete and death.announced is None:
        return None
    if death.stopped_for is StopReason.STALLED:
        return _from_kernel(death) or _failure(death, *STOPS[StopReason.STALLED])
    if death.stopped_for is not None:
        return _failure(death, *STOPS[death.stopped_for])
    if death.announced is not None:
        is_unexplained = death.announced.code in SCRIPTS and "cause" not in death.announced.details
        return (_from_kernel(death) if is_unexplained else None) or death.announced
    return _from_last_words(death) or _from_kernel(death) or _from_status(death)


def explain_stop(reason: StopReason | None) -> JobFailure:
    """Return the failure of an attempt that was stopped while no child ran."""
    code, message = STOPS[reason or StopReason.SUPERSEDED]
    return JobFailure.of(code, message)


def explain_os_error(error: Exception) -> JobFailure | None:
    """Return the failure for a lack of disk or memory on the worker; None for other errors."""
    if not isinstance(error, OSError):
        return None
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        text = "The worker's disk is full. Free some space in its folder (REDKILN_WORKER_DIR)."
        return JobFailure.of(FailureCode.DISK_FULL, text, error=str(error))
    if error.errno == errno.ENOMEM:
        text = (
            "The worker did not have enough main memory to start the job. Run fewer jobs at once "
            "(REDKILN_SLOTS)."
        )
        return JobFailure.of(FailureCode.HOST_OUT_OF_MEMORY, text, error=str(error))
    return None


def _from_last_words(death: Death) -> JobFailure | None:
    if death.status in (EXIT_DONE, EXIT_STOPPED):
        return None
    cause = recognise(death.tail)
    if cause is None:
        return None
    return _of_cause(death, cause, line=find_line(cause, death.tail.splitlines()))


def _from_kernel(death: Death) -> JobFailure | None:
    """A process that a hung GPU kills or blocks may not print anything."""
    if death.status in (EXIT_DONE, EXIT_STOPPED):
        return None
    found = recognise_kernel(death.kernel_log)
    return None if found is None else _of_cause(death, found[0], line=found[1][-1])


def _of_cause(death: Death, cause: Cause, *, line: str) -> JobFailure:
    return to_failure(cause, line=line, **_evidence(death), tail=death.tail[-MAX_TAIL:])


def _from_status(death: Death) -> JobFailure:
    if death.status == -signal.SIGKILL and death.oom_kills:
        return _failure(
            death,
            FailureCode.HOST_OUT_OF_MEMORY,
            "The kernel killed the process because the worker ran out of main memory. Run fewer "
            "jobs at once (REDKILN_SLOTS).",
        )
    if death.status in (-signal.SIGKILL, -signal.SIGTERM) or death.status == EXIT_STOPPED:
        text = "Something other than Redkiln's worker stopped the process."
        return _failure(death, FailureCode.KILLED, text)
    if death.status < 0:
        words = CRASHES.get(signal.Signals(-death.status), "A signal ended the process.")
        return _failure(death, FailureCode.CRASHED, words)
    if death.status == EXIT_DONE:
        message = "The process exited with status 0 but wrote no result."
    elif death.status == EXIT_FAILED:
        message = "The process failed without reporting why. See the end of trainer.log."
    else:
        message = f"The process exited with status {death.status}: {_last_line(death.tail)}"
    return _failure(death, FailureCode.INTERNAL, message)


def _failure(death: Death, code: FailureCode, message: str) -> JobFailure:
    details = _evidence(death)
    if death.tail and code not in WANTED:
        details["tail"] = death.tail[-MAX_TAIL:]
    return JobFailure.of(code, message, **details)


def _evidence(death: Death) -> dict[str, object]:
    details: dict[str, object] = {"exit_status": death.status}
    if death.status < 0:
        details = {"signal": signal.Signals(-death.status).name}
    if death.last_step is not None:
        details["step"] = death.last_step
    return details


def _last_line(tail: str) -> str:
    lines = [line for line in tail.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "it printed nothing"
