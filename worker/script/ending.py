"""What the end of a script means: its exit status, its last words, and what to do about it."""

import signal
from collections.abc import Mapping
from dataclasses import replace

from redkiln.failure import FailureCode, JobFailure
from worker.hardware.deaths import Cause, find_line, recognise, to_failure

MAX_TAIL = 2000
EXIT_CANNOT_RUN, EXIT_NOT_FOUND = 126, 127
MEANINGS = {
    signal.SIGSEGV: "a segmentation fault in native code",
    signal.SIGBUS: "a bus error: shared memory (/dev/shm) or the disk is too small",
    signal.SIGABRT: "native code gave up (abort)",
    signal.SIGILL: "an illegal instruction: a library was built for another CPU",
    signal.SIGFPE: "an arithmetic exception in native code",
    signal.SIGXFSZ: "a file grew over script.limits.disk_bytes",
}


FIXES: Mapping[str, str] = {
    "gpu_out_of_memory": "Have the script use smaller batches, or accumulate gradients over more.",
    "no_bf16": "Have the script compute in fp16 or fp32.",
    "compiler_died": "Have the script compute in fp32, and without torch.compile.",
    "host_out_of_memory": "Run fewer jobs at once (REDKILN_SLOTS), or have the script hold less.",
}
"""What to do, by cause, where a trainer has fields of its spec for it and a script has not."""
NEED_GPU = ("gpu_not_visible", "wrong_build", "kfd_closed")
"""Causes that are no fault of the worker's where a script has no GPU."""


def explain_exit(
    status: int, *, tail: str, oom_kills: int, has_gpu: bool = True
) -> JobFailure | None:
    """The failure that an exit status stands for; None for 0.

    Args:
        status: as subprocess has it: minus the signal's number where one ended it.
        tail: the last of what it printed.
        oom_kills: processes that the kernel killed for memory meanwhile.
        has_gpu: whether one was leased for it.
    """
    if status == 0:
        return None
    if status > 128 and status - 128 in {number.value for number in signal.Signals}:
        status = 128 - status  # a shell in between says it so
    evidence: dict[str, object] = {"exit_status": status}
    if status < 0:
        evidence = {"signal": signal.Signals(-status).name}
    cause = recognise(tail)
    if cause is not None:
        line = find_line(cause, tail.splitlines())
        told = _tell_of_script(cause, line=line, has_gpu=has_gpu)
        return to_failure(told, line=line, **evidence, tail=tail[-MAX_TAIL:])
    if status == -signal.SIGKILL and oom_kills:
        code, message = (
            FailureCode.HOST_OUT_OF_MEMORY,
            "the kernel killed the script because the worker's main memory was used up",
        )
    elif status < 0:
        number = signal.Signals(-status)
        what = MEANINGS.get(number, "somebody ended it, or it ended itself")
        code = FailureCode.CRASHED if number in MEANINGS else FailureCode.KILLED
        message = f"the script was ended by {number.name}: {what}"
    elif status == EXIT_NOT_FOUND:
        code = FailureCode.BAD_INPUT
        message = f"the program was not found: {_last_line(tail)}"
    elif status == EXIT_CANNOT_RUN:
        code = FailureCode.BAD_INPUT
        message = f"the program cannot be run: {_last_line(tail)}"
    else:
        code = FailureCode.SCRIPT_FAILED
        message = f"the script ended with status {status}: {_last_line(tail)}"
    return JobFailure.of(code, message, **evidence, tail=tail[-MAX_TAIL:])


def _tell_of_script(cause: Cause, *, line: str, has_gpu: bool) -> Cause:
    """A cause as it is with a program that is not ours."""
    if cause.name == "broken_installation":
        return replace(
            cause,
            code=FailureCode.SCRIPT_FAILED,
            happened=f"The script could not import something ({line}).",
            fix="Name what is missing, or its version, among the requirements "
            "(`redkiln run --requirements FILE`).",
        )
    if cause.name in NEED_GPU and not has_gpu:
        return replace(
            cause,
            row=None,
            code=FailureCode.SCRIPT_FAILED,
            is_retryable=False,
            happened="The script uses a GPU, and none was leased for it.",
            fix="Ask for one: resources.device: gpu (`redkiln run --gpus 1`).",
        )
    return replace(cause, fix=FIXES.get(cause.name, cause.fix))


def _last_line(tail: str) -> str:
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    return lines[-1][:500] if lines else "it printed nothing"
