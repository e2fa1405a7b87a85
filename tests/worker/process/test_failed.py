import errno

import pytest
import torch

from redkiln.failure import FailureCode
from worker.process.failed import TrainingFailed, of_exception

CASES = [
    (TrainingFailed(FailureCode.DIVERGED, "nan"), FailureCode.DIVERGED, False),
    (OSError(errno.ENOSPC, "No space left"), FailureCode.DISK_FULL, True),
    (OSError(errno.EDQUOT, "Quota"), FailureCode.DISK_FULL, True),
    (OSError(errno.EIO, "Input/output error"), FailureCode.INTERNAL, False),
    (torch.OutOfMemoryError("HIP out of memory"), FailureCode.OUT_OF_MEMORY, False),
    (
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
        FailureCode.OUT_OF_MEMORY,
        False,
    ),
    (MemoryError(), FailureCode.HOST_OUT_OF_MEMORY, True),
    (torch.AcceleratorError("HIP error: an illegal access"), FailureCode.GPU_FAULT, True),
    (torch.AcceleratorError("HIP error: invalid device function"), FailureCode.NO_GPU, False),
    (
        RuntimeError("DataLoader worker (pid 5) is killed by signal: Bus error."),
        FailureCode.HOST_OUT_OF_MEMORY,
        False,
    ),
    (ZeroDivisionError("division by zero"), FailureCode.INTERNAL, False),
]


@pytest.mark.parametrize(("error", "code", "retryable"), CASES, ids=lambda case: repr(case)[:40])
def test_every_exception_has_its_code(error, code, retryable):
    failure = of_exception(error, device="cuda:0")
    assert (failure.code, failure.retryable) == (code, retryable)
    assert failure.message


def test_a_real_allocation_that_is_too_large_is_out_of_memory():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50)
    assert of_exception(caught.value, device="cpu").code is FailureCode.OUT_OF_MEMORY


def test_a_known_gpu_failure_names_its_row_in_the_doctors_table():
    failure = of_exception(torch.AcceleratorError("HIP error: invalid device function"), device="x")
    assert failure.details["doctor_row"] == 1
    assert failure.details["fix"] in failure.message
