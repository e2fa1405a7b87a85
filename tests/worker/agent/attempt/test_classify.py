import errno
import signal

import pytest

from redkiln.failure import FailureCode, JobFailure
from worker.agent.attempt.classify import (
    Death,
    explain_os_error,
    explain_stop,
    judge,
)
from worker.agent.stopping import StopReason
from worker.jobdir import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED

ANNOUNCED = JobFailure.of(FailureCode.BAD_INPUT, "a file is broken")
GPU_FAULT = "Memory access fault by GPU node-1 (Agent handle: 0x5) on address 0x7f. Reason: Unknown"
HANG = "HW Exception by GPU node-1 (Agent handle: 0x5) reason :GPU Hang"
NO_KERNELS = "RuntimeError: HIP error: invalid device function"
NO_SPACE = "OSError: [Errno 28] No space left on device"
NO_SPACE_IN_WORDS = "safetensors_rust.SafetensorError: No space left on device (os error 28)"
CPU_MEMORY = "RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory"
RING_TIMEOUT = "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=7"
IMPORT = "ModuleNotFoundError: No module named 'torch'"


@pytest.mark.parametrize(
    ("death", "code"),
    [
        (Death(EXIT_DONE, is_complete=True), None),
        (Death(-signal.SIGSEGV, is_complete=True), None),
        (Death(EXIT_DONE, is_complete=True, stopped_for=StopReason.TOO_LONG), None),
        (Death(EXIT_FAILED, is_complete=True, announced=ANNOUNCED), FailureCode.BAD_INPUT),
        (Death(EXIT_FAILED, announced=ANNOUNCED), FailureCode.BAD_INPUT),
        (Death(-signal.SIGKILL, stopped_for=StopReason.STALLED), FailureCode.NO_PROGRESS),
        (Death(EXIT_STOPPED, stopped_for=StopReason.TOO_LONG), FailureCode.MAX_DURATION),
        (Death(EXIT_STOPPED, stopped_for=StopReason.SHUTDOWN), FailureCode.WORKER_SHUTDOWN),
        (Death(EXIT_STOPPED, stopped_for=StopReason.CANCELLED), FailureCode.CANCELLED),
        (Death(EXIT_STOPPED, stopped_for=StopReason.REFUSED), FailureCode.INTERNAL),
        (Death(-signal.SIGKILL, oom_kills=1), FailureCode.HOST_OUT_OF_MEMORY),
        (Death(-signal.SIGKILL), FailureCode.KILLED),
        (Death(-signal.SIGTERM), FailureCode.KILLED),
        (Death(EXIT_STOPPED), FailureCode.KILLED),
        (Death(-signal.SIGSEGV), FailureCode.CRASHED),
        (Death(-signal.SIGBUS), FailureCode.CRASHED),
        (Death(-signal.SIGUSR1), FailureCode.CRASHED),
        (Death(-signal.SIGABRT, tail=GPU_FAULT), FailureCode.GPU_FAULT),
        (Death(-signal.SIGABRT, tail=HANG), FailureCode.GPU_FAULT),
        (Death(1, tail="torch.OutOfMemoryError: HIP out of memory."), FailureCode.OUT_OF_MEMORY),
        (Death(1, tail=NO_KERNELS), FailureCode.NO_GPU),
        (Death(1, tail="RuntimeError: No HIP GPUs are available"), FailureCode.NO_GPU),
        (Death(1, tail=NO_SPACE), FailureCode.DISK_FULL),
        (Death(1, tail=NO_SPACE_IN_WORDS), FailureCode.DISK_FULL),
        (Death(1, tail=CPU_MEMORY), FailureCode.HOST_OUT_OF_MEMORY),
        (Death(1, tail=IMPORT), FailureCode.INTERNAL),
        (Death(1, tail="ValueError: x"), FailureCode.INTERNAL),
        (Death(EXIT_FAILED), FailureCode.INTERNAL),
        (Death(EXIT_DONE), FailureCode.INTERNAL),
        (Death(EXIT_DONE, tail="MemoryError was survived"), FailureCode.INTERNAL),
    ],
)
def test_a_death_is_named_by_its_cause(death, code):
    failure = judge(death)
    assert (failure and failure.code) == code


def test_a_process_that_the_driver_killed_silently_is_explained_by_the_kernel_log():
    death = Death(-signal.SIGSEGV, kernel_log=(RING_TIMEOUT,))
    failure = judge(death)
    assert (failure.code, failure.retryable) == (FailureCode.GPU_FAULT, True)
    assert (failure.details["doctor_row"], failure.details["line"]) == (10, RING_TIMEOUT)


def test_its_own_output_takes_precedence_over_the_kernel_log():
    failure = judge(Death(1, tail=NO_SPACE, kernel_log=(RING_TIMEOUT,)))
    assert failure.code == FailureCode.DISK_FULL


@pytest.mark.parametrize("code", [FailureCode.KILLED, FailureCode.CRASHED])
def test_a_script_without_a_known_cause_is_explained_by_the_kernel_log(code):
    announced = JobFailure.of(code, "the script was ended")
    failure = judge(Death(EXIT_FAILED, announced=announced, kernel_log=(RING_TIMEOUT,)))
    assert (failure.code, failure.details["doctor_row"]) == (FailureCode.GPU_FAULT, 10)
    assert judge(Death(EXIT_FAILED, announced=announced)) == announced
    known = announced.model_copy(update={"details": {"cause": "gpu_out_of_memory"}})
    assert judge(Death(EXIT_FAILED, announced=known, kernel_log=(RING_TIMEOUT,))) == known
    assert judge(Death(EXIT_FAILED, announced=ANNOUNCED, kernel_log=(RING_TIMEOUT,))) == ANNOUNCED


def test_a_script_that_explained_itself_is_not_explained_by_the_kernel_log():
    announced = JobFailure.of(FailureCode.SCRIPT_FAILED, "ValueError: bad label")
    assert judge(Death(EXIT_FAILED, announced=announced, kernel_log=(RING_TIMEOUT,))) == announced


def test_a_stall_on_a_hung_gpu_is_a_gpu_fault():
    death = Death(-signal.SIGKILL, stopped_for=StopReason.STALLED, kernel_log=(RING_TIMEOUT,))
    assert judge(death).code == FailureCode.GPU_FAULT


def test_a_known_cause_names_its_doctor_row_and_the_fix():
    failure = judge(Death(-signal.SIGABRT, tail=f"{GPU_FAULT}\nAborted", last_step=7))
    assert failure.details["doctor_row"] == 9
    assert failure.details["fix"] in failure.message
    assert failure.details["line"] == GPU_FAULT
    assert failure.details["step"] == 7


def test_a_build_without_kernels_for_the_gpu_is_not_retried():
    assert not judge(Death(1, tail=NO_KERNELS)).retryable


def test_the_failure_carries_the_evidence():
    death = Death(-signal.SIGSEGV, tail="Fatal Python error", last_step=41)
    details = judge(death).details
    assert details == {"signal": "SIGSEGV", "step": 41, "tail": "Fatal Python error"}


def test_an_unknown_death_shows_its_last_line_of_output():
    assert "ValueError: x" in judge(Death(1, tail="Traceback\nValueError: x\n\n")).message


def test_every_reason_to_stop_has_a_message():
    assert all(explain_stop(reason).message for reason in StopReason)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, FailureCode.DISK_FULL),
        (errno.EDQUOT, FailureCode.DISK_FULL),
        (errno.ENOMEM, FailureCode.HOST_OUT_OF_MEMORY),
    ],
)
def test_a_lack_of_disk_or_memory_on_the_worker_has_a_code(number, code):
    assert explain_os_error(OSError(number, "x")).code == code


def test_other_errors_of_the_worker_are_not_explained_by_their_number():
    assert explain_os_error(OSError(errno.ENOENT, "x")) is None
    assert explain_os_error(ImportError("no module")) is None
