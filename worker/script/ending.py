"""Why a script ended: from its exit status and its output, with what to do about it."""

import signal
from collections.abc import Mapping
from dataclasses import replace

from redkiln.failure import FailureCode, JobFailure
from worker.hardware.health.deaths import Cause, find_line, recognise, to_failure

MAX_TAIL = 2000
EXIT_CANNOT_RUN, EXIT_NOT_FOUND = 126, 127
MEANINGS = {
    signal.SIGSEGV: "a segmentation fault in native code",
    signal.SIGBUS: "a bus error: shared memory (/dev/shm) or the disk is too small",
    signal.SIGABRT: "native code aborted the process",
    signal.SIGILL: "an illegal instruction: a library was built for another CPU",
    signal.SIGFPE: "an arithmetic exception in native code",
    signal.SIGXFSZ: "a file grew larger than script.limits.disk_bytes",
}


FIXES: Mapping[str, str] = {
    "gpu_out_of_memory": "Use smaller batches in the script, or accumulate more gradients.",
    "no_bf16": "Use fp16 or fp32 in the script.",
    "illegal_instruction": "Unset HSA_OVERRIDE_GFX_VERSION if it is set; otherwise use fp32 in the "
    "script.",
    "compiler_died": "Use fp32 in the script, and no torch.compile.",
    "host_out_of_memory": "Run fewer jobs at once (REDKILN_SLOTS), or save memory in the script.",
}
"""What to do for each cause, if the usual advice names fields of a spec that a script lacks."""
NEED_GPU = ("gpu_not_visible", "wrong_build", "kfd_closed")
"""Causes that are not the worker's fault if the script has no GPU."""


def explain_exit(
    status: int, *, tail: str, oom_kills: int, has_gpu: bool = True
) -> JobFailure | None:
    """Return the failure for an exit status; None for 0.

    Args:
        status: Exit status as subprocess reports it; negative: the signal that ended it.
        tail: End of the script's output.
        oom_kills: Number of processes that the kernel killed for memory meanwhile.
        has_gpu: Whether a GPU was leased for the script.
    """
    if status == 0:
        return None
    if status > 128 and status - 128 in {number.value for number in signal.Signals}:
        status = 128 - status  # a shell reports a signal as 128 plus its number
    evidence: dict[str, object] = {"exit_status": status}
    if status < 0:
        evidence = {"signal": signal.Signals(-status).name}
    cause = recognise(tail)
    if cause is not None:
        line = find_line(cause, tail.splitlines())
        adapted = _adapt_to_script(cause, line=line, has_gpu=has_gpu)
        return to_failure(adapted, line=line, **evidence, tail=tail[-MAX_TAIL:])
    if status == -signal.SIGKILL and oom_kills:
        code, message = (
            FailureCode.HOST_OUT_OF_MEMORY,
            "the kernel killed the script because the worker ran out of main memory",
        )
    elif status < 0:
        number = signal.Signals(-status)
        what = MEANINGS.get(number, "something else on the worker ended it, or it ended itself")
        code = FailureCode.CRASHED if number in MEANINGS else FailureCode.KILLED
        message = f"{number.name} ended the script: {what}"
    elif status == EXIT_NOT_FOUND:
        code = FailureCode.BAD_INPUT
        message = f"the program does not exist: {_last_line(tail)}"
    elif status == EXIT_CANNOT_RUN:
        code = FailureCode.BAD_INPUT
        message = (
            f"the program cannot be run: {_last_line(tail)}; name the interpreter before the file, "
            "as in `python train.py`, or make the file executable"
        )
    else:
        code = FailureCode.SCRIPT_FAILED
        message = f"the script exited with status {status}: {_last_line(tail)}"
    return JobFailure.of(code, message, **evidence, tail=tail[-MAX_TAIL:])


def _adapt_to_script(cause: Cause, *, line: str, has_gpu: bool) -> Cause:
    """Adapt a cause's message to a program that is not part of Redkiln."""
    if cause.name == "broken_installation":
        return replace(
            cause,
            code=FailureCode.SCRIPT_FAILED,
            happened=f"The script could not import a module ({line}).",
            fix="Add the missing package, or its version, to the requirements "
            "(`redkiln run --requirements FILE`).",
        )
    if cause.name == "system_library_missing":
        return replace(
            cause,
            row=None,
            code=FailureCode.SCRIPT_FAILED,
            happened=f"The script needs a system library that the worker lacks ({line}).",
            fix="Require a package that does not need it, such as opencv-python-headless for "
            "libGL.so.1, or add the library to the worker's image.",
        )
    if cause.name in NEED_GPU and not has_gpu:
        return replace(
            cause,
            row=None,
            code=FailureCode.SCRIPT_FAILED,
            is_retryable=False,
            happened="The script uses a GPU, but none was leased for it.",
            fix="Set resources.device to gpu (`redkiln run --gpus 1`).",
        )
    return replace(cause, fix=FIXES.get(cause.name, cause.fix))


def _last_line(tail: str) -> str:
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    return lines[-1][:500] if lines else "it printed nothing"
