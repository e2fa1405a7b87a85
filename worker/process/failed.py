"""How the trainer ends a run on purpose: an exception that carries the failure as data.

`of_exception` is the only place that gives other exceptions a failure code.
"""

import errno
import sys

from redkiln.failure import FailureCode, JobFailure
from worker.hardware.health.deaths import recognise, to_failure


class TrainingFailed(Exception):  # noqa: N818 - it names an outcome
    """The run cannot continue; `failure` says why."""

    def __init__(self, code: FailureCode, message: str, **details: object) -> None:
        self.failure = JobFailure.of(code, message, **details)
        super().__init__(message)

    @classmethod
    def from_failure(cls, failure: JobFailure) -> "TrainingFailed":
        """Wrap a failure that was found elsewhere."""
        error = cls(failure.code, failure.message)
        error.failure = failure
        return error


def of_exception(error: BaseException, *, device: str) -> JobFailure:
    """Return the failure for an exception."""
    if isinstance(error, TrainingFailed):
        return error.failure
    text = str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        message = "the worker's disk is full; free some space, then submit the job again"
        return JobFailure.of(FailureCode.DISK_FULL, message, error=text)
    # If torch was never imported, the error cannot be one of torch's.
    torch = sys.modules.get("torch")
    is_memory = torch is not None and isinstance(error, torch.OutOfMemoryError)
    if is_memory or "DefaultCPUAllocator" in text:
        message = f"out of memory on {device}; use a smaller batch_size, inputs or model"
        return JobFailure.of(FailureCode.OUT_OF_MEMORY, message, error=text[:2000])
    if isinstance(error, MemoryError):
        message = "the worker's host ran out of memory; free some memory or run fewer jobs at once"
        return JobFailure.of(FailureCode.HOST_OUT_OF_MEMORY, message, error=text[:2000])
    cause = recognise(text)
    if cause is not None and cause.row is not None:
        return to_failure(cause, error=text[:2000])
    if torch is not None and isinstance(error, torch.AcceleratorError):
        message = f"the GPU failed ({device}): {text[:500]}"
        return JobFailure.of(FailureCode.GPU_FAULT, message)
    message = f"{type(error).__name__}: {text[:500]} (a bug in Redkiln; see trainer.log)"
    return JobFailure.of(FailureCode.INTERNAL, message)
