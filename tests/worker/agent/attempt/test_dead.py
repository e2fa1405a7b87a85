import signal

import pytest

from redkiln.failure import FailureCode, JobFailure
from worker.agent.attempt.classify import Death, judge
from worker.agent.attempt.dead import record_death
from worker.agent.stopping import StopReason
from worker.hardware.health.death_book import DeathBook
from worker.jobdir import EXIT_FAILED

FAULT = "Memory access fault by GPU node-1 (Agent handle: 0x5) on address 0x7f. Reason: Unknown"
RING = "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=2"


def written(tmp_path, death):
    record_death(death, judge(death), attempt_id="att_1", worker_dir=tmp_path)
    return DeathBook(tmp_path).load()


def test_a_death_is_recorded_with_its_row_and_the_line_that_explains_it(tmp_path):
    (seen,) = written(tmp_path, Death(-signal.SIGABRT, tail=f"epoch 3\n{FAULT}\n"))
    assert (seen.attempt_id, seen.status, seen.row, seen.line) == ("att_1", -6, 9, FAULT)
    assert not seen.is_complete


def test_a_crash_after_the_work_is_recorded_as_such(tmp_path):
    (seen,) = written(tmp_path, Death(-signal.SIGSEGV, is_complete=True))
    assert (seen.is_complete, seen.row) == (True, None)


def test_the_failure_that_a_trainer_announced_is_recorded(tmp_path):
    announced = JobFailure(
        code=FailureCode.NO_GPU,
        message="x",
        retryable=False,
        details={"doctor_row": 1, "error": "e"},
    )
    (seen,) = written(tmp_path, Death(EXIT_FAILED, announced=announced))
    assert (seen.row, seen.line) == (1, "e")


@pytest.mark.parametrize(
    "death",
    [
        Death(0, is_complete=True),
        Death(-signal.SIGKILL, stopped_for=StopReason.CANCELLED),
        Death(-signal.SIGKILL, stopped_for=StopReason.STALLED),
    ],
)
def test_a_child_that_finished_or_was_stopped_is_not_recorded(tmp_path, death):
    assert written(tmp_path, death) == []


def test_a_stall_that_the_driver_explains_is_recorded(tmp_path):
    death = Death(-signal.SIGKILL, stopped_for=StopReason.STALLED, kernel_log=(RING,))
    (seen,) = written(tmp_path, death)
    assert (seen.row, seen.line) == (10, RING)


def test_a_death_book_that_cannot_be_written_harms_nothing(tmp_path):
    record_death(Death(1), judge(Death(1)), attempt_id="att_1", worker_dir=tmp_path / "absent")


def test_a_worker_records_the_death_of_a_trainer(service, start_agent, settings):
    words = "Memory access fault by GPU node-1 (Agent handle: 0x5) on address 0x7f"
    attempt_id = service.add_job(steps=10, die_at=7, how=f"say:{words}")
    start_agent()
    failure = service.wait_for_finish(attempt_id).failure
    assert (failure.code, failure.details["doctor_row"]) == (FailureCode.GPU_FAULT, 9)
    (seen,) = DeathBook(settings.worker_dir).load()
    assert (seen.attempt_id, seen.row) == (attempt_id, 9)
    assert words in seen.line


def test_a_crash_after_the_work_is_recorded_and_the_job_succeeds(service, start_agent, settings):
    attempt_id = service.add_job(steps=3, crash_after=True)
    start_agent()
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
    (seen,) = DeathBook(settings.worker_dir).load()
    assert (seen.is_complete, seen.status) == (True, -signal.SIGSEGV)
