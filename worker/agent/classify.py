"""What a child's death means: from its exit status, its last words and what we did to it.

So does what ends an attempt while no child runs: a stop, or an error of the worker's own.
"""

import errno
import signal
from dataclasses import dataclass
from pathlib import Path

from redkiln.failure import FailureCode, JobFailure
from worker.agent.stopping import StopReason
from worker.hardware.deaths import Cause, find_line, recognise, recognise_kernel, to_failure
from worker.jobdir import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED


@dataclass(frozen=True)
class Death:
    """All that is known of how a child ended.

    Attributes:
        status: exit status; minus the number of the signal that ended it.
        is_complete: the file that it leaves when its work is done is there.
        announced: the failure that it wrote before it left.
        stopped_for: why we stopped it, if we did.
        tail: the last lines of its output.
        oom_kills: processes that the kernel killed for memory on this host meanwhile.
        kernel_log: what the kernel said of this child's GPUs meanwhile, where it may be read.
        last_step: optimiser step that it was at.
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
    signal.SIGABRT: "Native code gave up (abort).",
    signal.SIGILL: "Illegal instruction: a library was built for another CPU.",
    signal.SIGFPE: "Arithmetic exception in native code.",
}

STOPS = {
    StopReason.STALLED: (FailureCode.NO_PROGRESS, "No progress was made for too long."),
    StopReason.TOO_LONG: (FailureCode.MAX_DURATION, "The job ran longer than it was allowed to."),
    StopReason.REFUSED: (FailureCode.INTERNAL, "The service refused what the worker reported."),
    StopReason.SHUTDOWN: (FailureCode.WORKER_SHUTDOWN, "The worker was shut down."),
    StopReason.PAUSED: (FailureCode.PAUSED, "The job was paused."),
    StopReason.CANCELLED: (FailureCode.CANCELLED, "The job was cancelled."),
    StopReason.SUPERSEDED: (FailureCode.SUPERSEDED, "The attempt was given to another worker."),
}


WANTED = (FailureCode.CANCELLED, FailureCode.PAUSED, FailureCode.WORKER_SHUTDOWN)
"""What somebody asked for: the last words say nothing about it."""


SCRIPTS = (FailureCode.CRASHED, FailureCode.KILLED)
"""Ends of a user's program by a signal, announced by what stays with it, which does not see the
kernel's log. One that left with a status of its own has had its say."""


def judge(death: Death) -> JobFailure | None:
    """Why the child's work is not done; None if it is, even if it crashed on its way out."""
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
    """The failure of an attempt that was stopped while no child ran."""
    code, message = STOPS[reason or StopReason.SUPERSEDED]
    return JobFailure.of(code, message)


def explain_os_error(error: OSError) -> JobFailure:
    """The failure that an error of the worker's own system calls stands for."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        text = "The worker's disk is full; make room in its folder (REDKILN_WORKER_DIR)."
        return JobFailure.of(FailureCode.DISK_FULL, text, error=str(error))
    if error.errno == errno.ENOMEM:
        text = "The worker's main memory was not enough to start the job."
        return JobFailure.of(FailureCode.HOST_OUT_OF_MEMORY, text, error=str(error))
    return JobFailure.of(FailureCode.INTERNAL, f"The worker could not go on: {error}")


def count_oom_kills(path: Path = Path("/proc/vmstat")) -> int:
    """Processes that the kernel has killed for memory since it started."""
    for line in path.read_text().splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill":
            return int(count)
    return 0


def _from_last_words(death: Death) -> JobFailure | None:
    if death.status in (EXIT_DONE, EXIT_STOPPED):
        return None
    cause = recognise(death.tail)
    if cause is None:
        return None
    return _of_cause(death, cause, line=find_line(cause, death.tail.splitlines()))


def _from_kernel(death: Death) -> JobFailure | None:
    """A process that a hung GPU ends, or keeps from going on, need not have said a word."""
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
            "The kernel killed the process because the worker's main memory was used up.",
        )
    if death.status in (-signal.SIGKILL, -signal.SIGTERM) or death.status == EXIT_STOPPED:
        return _failure(death, FailureCode.KILLED, "Somebody stopped the process on the worker.")
    if death.status < 0:
        words = CRASHES.get(signal.Signals(-death.status), "The process was ended by a signal.")
        return _failure(death, FailureCode.CRASHED, words)
    if death.status == EXIT_DONE:
        message = "The process left as if all were done, without its result."
    elif death.status == EXIT_FAILED:
        message = "The process failed and did not say why."
    else:
        message = f"The process ended with status {death.status}: {_last_line(death.tail)}"
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
    return lines[-1].strip()[:300] if lines else "it said nothing"
