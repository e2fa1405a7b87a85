import hashlib
import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from redkiln.failure import FailureCode
from worker.agent.attempt.processes import Processes
from worker.agent.children.launch import Launcher


def offer(service, step):
    """A checkpoint as the fake trainer makes it, stored by the service."""
    content = f"state at step {step}".encode() * 100
    facts = {"step": step, "size_bytes": len(content)}
    facts["sha256"] = hashlib.sha256(content).hexdigest()
    service.blobs[facts["sha256"]] = content
    return {**facts, "manifest": facts}


def damage(service, ref):
    service.blobs[ref["sha256"]] = service.blobs[ref["sha256"]][:-1]


def test_a_job_runs_from_claim_to_finish(service, start_agent, settings):
    attempt_id = service.add_job(steps=10)
    start_agent()
    finish = service.wait_for_finish(attempt_id)
    assert finish.outcome == "succeeded"
    assert {artifact.name for artifact in finish.artifacts} == {
        "model.onnx", "report.md", "trainer.log", "events.out.tfevents",
    }  # fmt: skip
    assert all(artifact.sha256 in service.blobs for artifact in finish.artifacts)
    kinds = service.kinds(attempt_id)
    assert kinds[0] == "phase"
    assert kinds.count("metrics") == 10
    phases = [e.data["phase"] for e in service.events[attempt_id] if e.kind == "phase"]
    assert phases == ["preparing", "training", "exporting", "uploading"]
    assert b"warm=True start=0" in service.log[attempt_id]
    service.wait_for(lambda: not any(settings.jobs_dir.iterdir()))


def test_a_task_without_export_ends_with_its_trainers_files(service, start_agent):
    attempt_id = service.add_job(steps=10, task="benchmark")
    start_agent()
    finish = service.wait_for_finish(attempt_id)
    assert (finish.outcome, finish.failure) == ("succeeded", None)
    assert {artifact.name for artifact in finish.artifacts} == {
        "model.onnx", "report.md", "trainer.log", "events.out.tfevents",
    }  # fmt: skip
    phases = [e.data["phase"] for e in service.events[attempt_id] if e.kind == "phase"]
    assert phases == ["preparing", "training", "uploading"]
    assert b"dataset=None" in service.log[attempt_id]
    assert "message" not in service.kinds(attempt_id)  # no export child was started


def test_a_trainer_that_exits_without_a_result_has_failed(service, start_agent):
    attempt_id = service.add_job(steps=10, task="benchmark", die_at=5, how="SIGKILL")
    start_agent()
    finish = service.wait_for_finish(attempt_id)
    assert finish.outcome == "failed"


def test_checkpoints_are_committed_while_training_runs(service, start_agent):
    attempt_id = service.add_job(steps=20, checkpoint_every=5, step_seconds=0.05)
    start_agent()
    service.wait_for_finish(attempt_id)
    *earlier, last = [commit.step for commit in service.commits[attempt_id]]
    assert last == 20
    assert earlier, "at least one while training runs; others may give way to a newer one"
    assert earlier == sorted(set(earlier) & {5, 10, 15})


def test_a_later_attempt_resumes_from_the_committed_checkpoint(service, start_agent):
    attempt_id = service.add_job(steps=8, checkpoints=[offer(service, 5)])
    start_agent()
    service.wait_for_finish(attempt_id)
    assert b"start=5" in service.log[attempt_id]
    told = [e.data for e in service.events[attempt_id] if e.kind == "metrics"]
    assert not any("undone_after" in data for data in told)


def test_a_lost_or_damaged_checkpoint_is_reported_and_skipped(service, start_agent):
    ref = {"step": 5, "sha256": "0" * 64, "size_bytes": 1, "manifest": {}}
    attempt_id = service.add_job(steps=3, checkpoints=[ref])
    start_agent()
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
    warnings = [e.data["code"] for e in service.events[attempt_id] if e.kind == "warning"]
    assert warnings == ["checkpoint_unavailable", "restarted"]
    undone = [e.data.get("undone_after") for e in service.events[attempt_id] if e.kind == "metrics"]
    assert undone[0] == 0
    assert b"start=0" in service.log[attempt_id]


def test_an_attempt_whose_newest_checkpoint_is_damaged_reports_the_one_it_resumes_from(
    service, start_agent
):
    refs = [offer(service, step) for step in (10, 5, 3)]
    damage(service, refs[0])
    attempt_id = service.add_job(steps=12, checkpoints=refs)
    start_agent()
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
    assert b"start=5" in service.log[attempt_id]
    told = [e for e in service.events[attempt_id] if e.kind in ("warning", "metrics")]
    assert told[0].data["code"] == "checkpoint_unavailable"
    assert told[1].data == {"points": {}, "undone_after": 5}
    assert [e.data.get("undone_after") for e in told[2:]] == [None] * len(told[2:])


def test_a_damaged_checkpoint_that_is_recreated_byte_for_byte_is_uploaded_again(
    service, start_agent
):
    refs = [offer(service, step) for step in (10, 5)]
    damage(service, refs[0])
    attempt_id = service.add_job(steps=10, checkpoints=refs)
    start_agent()
    service.wait_for_finish(attempt_id)
    assert [commit.sha256 for commit in service.commits[attempt_id]] == [refs[0]["sha256"]]
    assert service.blobs[refs[0]["sha256"]] == b"state at step 10" * 100


def test_cancelling_ends_training_and_keeps_its_checkpoint(service, start_agent):
    attempt_id = service.add_job(steps=10_000, step_seconds=0.01)
    start_agent()
    service.wait_for(lambda: "progress" in service.kinds(attempt_id))
    service.cancelled.add(attempt_id)
    finish = service.wait_for_finish(attempt_id)
    assert finish.outcome == "cancelled"
    assert service.kinds(attempt_id)[-1] == "checkpoint"


def test_a_trainer_that_ignores_sigterm_is_killed_after_the_grace(service, start_agent):
    attempt_id = service.add_job(steps=10_000, step_seconds=0.01, deaf=True)
    start_agent(cancel_grace_seconds=0.3)
    service.wait_for(lambda: "progress" in service.kinds(attempt_id))
    service.cancelled.add(attempt_id)
    assert service.wait_for_finish(attempt_id).outcome == "cancelled"


def test_cancelling_ends_an_export(service, start_agent):
    attempt_id = service.add_job(steps=3, export_seconds=60)
    start_agent()
    service.wait_for(
        lambda: any(e.data.get("phase") == "exporting" for e in service.events.get(attempt_id, []))
    )
    service.cancelled.add(attempt_id)
    finish = service.wait_for_finish(attempt_id)
    assert (finish.outcome, finish.artifacts) == ("cancelled", [])


def test_a_superseded_attempt_is_killed_and_reports_nothing_more(service, start_agent, settings):
    attempt_id = service.add_job(steps=10_000, step_seconds=0.01)
    start_agent()
    service.wait_for(lambda: "progress" in service.kinds(attempt_id))
    service.superseded.add(attempt_id)
    service.wait_for(lambda: not any(settings.jobs_dir.iterdir()))
    num_reports = len(service.reports)
    time.sleep(0.5)
    assert len(service.reports) == num_reports
    assert attempt_id not in service.finishes


def test_shutting_down_uploads_the_checkpoint_and_releases_the_job(service, start_agent):
    attempt_id = service.add_job(steps=10_000, step_seconds=0.01, checkpoint_every=100_000)
    agent = start_agent()
    service.wait_for(lambda: service.kinds(attempt_id).count("progress") > 20)
    agent.ask_to_stop()
    agent.join()
    finish = service.finishes[attempt_id]
    assert finish.outcome == "released"
    assert finish.failure.code == FailureCode.WORKER_SHUTDOWN
    announced = [e.data["step"] for e in service.events[attempt_id] if e.kind == "checkpoint"]
    assert [commit.step for commit in service.commits[attempt_id]] == announced


def test_training_continues_while_the_service_is_unreachable_and_no_event_is_lost(
    service, start_agent
):
    attempt_id = service.add_job(steps=60, step_seconds=0.02)
    start_agent()
    service.wait_for(lambda: "progress" in service.kinds(attempt_id))
    service.is_away = True
    time.sleep(1.6)
    assert attempt_id not in service.finishes
    service.is_away = False
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
    steps = [e.data["step"] for e in service.events[attempt_id] if e.kind == "progress"]
    assert steps == list(range(1, 61))


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("announce", FailureCode.DIVERGED),
        ("SIGKILL", FailureCode.KILLED),
        ("SIGSEGV", FailureCode.CRASHED),
        ("half-line", FailureCode.KILLED),
        ("say:RuntimeError: HIP out of memory. Tried to allocate", FailureCode.OUT_OF_MEMORY),
    ],
)
def test_a_death_is_reported_with_its_cause(service, start_agent, how, code):
    attempt_id = service.add_job(steps=10, die_at=7, how=how)
    start_agent()
    finish = service.wait_for_finish(attempt_id)
    assert (finish.outcome, finish.failure.code) == ("failed", code)
    assert "trainer.log" in {artifact.name for artifact in finish.artifacts}
    assert [commit.step for commit in service.commits[attempt_id]] == [5]


def test_a_trainer_without_progress_is_killed(service, start_agent):
    attempt_id = service.add_job(steps=10, hang_at=4)
    start_agent(stall_seconds=4.0)
    finish = service.wait_for_finish(attempt_id)
    assert finish.failure.code == FailureCode.NO_PROGRESS
    assert finish.failure.details["step"] == 3


def test_a_job_that_runs_too_long_fails_and_keeps_its_checkpoint(service, start_agent):
    attempt_id = service.add_job(steps=10_000, step_seconds=0.01, max_duration_seconds=0.8)
    start_agent()
    finish = service.wait_for_finish(attempt_id)
    assert (finish.outcome, finish.failure.code) == ("failed", FailureCode.MAX_DURATION)
    assert service.commits[attempt_id]


def test_a_crash_after_the_work_was_done_is_a_warning(service, start_agent):
    attempt_id = service.add_job(steps=3, crash_after=True)
    start_agent()
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
    warnings = [e.data["code"] for e in service.events[attempt_id] if e.kind == "warning"]
    assert warnings == ["crash_on_exit"]


def test_what_own_code_leaves_running_ends_before_its_outcome_is_reported(
    service, start_agent, monkeypatch
):
    monkeypatch.setattr(Processes, "_is_own_code", True)
    start = Launcher.start_trainer
    monkeypatch.setattr(
        Processes,
        "_start_own",
        lambda own: start(own.launcher, own.jobdir, own.allocation, on_cold=own.say),
    )
    attempt_id = service.add_job(steps=2, leave_stray=True)
    start_agent()
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
    texts = [e.data["text"] for e in service.events[attempt_id] if e.kind == "message"]
    (pid,) = [int(text.removeprefix("stray=")) for text in texts if text.startswith("stray=")]
    stat = Path(f"/proc/{pid}/stat")
    service.wait_for(
        lambda: not stat.exists() or stat.read_text().rpartition(")")[2][1] == "Z", seconds=5
    )


def test_no_credential_reaches_the_trainer(service, start_agent, monkeypatch):
    monkeypatch.setenv("REDKILN_WORKER_KEY", "rk_secret")
    monkeypatch.setenv("REDKILN_BROKER_URL", "redis://:secret@host")
    attempt_id = service.add_job(steps=2)
    start_agent()
    service.wait_for_finish(attempt_id)
    assert b"secrets []" in service.log[attempt_id]


def test_a_claim_whose_answer_was_lost_is_repeated_with_the_same_id(service, start_agent):
    service.lose_claim_answers = 1
    attempt_id = service.add_job(steps=2)
    start_agent()
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
    ids = [claim.claim_id for claim in service.claims[:2]]
    assert ids[0] == ids[1]
    assert len(service.given) == 1


def test_jobs_queue_up_behind_the_only_slot_and_each_gets_a_warm_spare(service, start_agent):
    attempts = [service.add_job(steps=5) for _ in range(3)]
    start_agent()
    service.wait_for(lambda: list(service.finishes) == attempts)
    assert all(b"warm=True" in service.log[attempt] for attempt in attempts)


def test_a_worker_whose_disk_is_almost_full_takes_no_job_until_there_is_space(
    service, start_agent, monkeypatch
):
    free, asked = [999], threading.Event()

    def measure(_):
        asked.set()
        return SimpleNamespace(free=free[0])

    monkeypatch.setattr("worker.agent.workdir.shutil.disk_usage", measure)
    attempt_id = service.add_job(steps=5)
    agent = start_agent(worker_min_free_bytes=1000, poll_seconds=0.05)
    assert asked.wait(30)
    assert agent.answer("job_1") is False
    assert not service.given
    free[0] = 1000
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"


def test_a_busy_worker_leaves_a_doorbell_to_others(service, start_agent):
    attempt_id = service.add_job(steps=10_000, step_seconds=0.01)
    agent = start_agent()
    service.wait_for(lambda: "progress" in service.kinds(attempt_id))
    assert agent.answer("job_2") is False


@pytest.mark.parametrize(
    ("change", "problem"),
    [({"task": "poetry"}, "unknown task 'poetry'"), ({"resources": {"gpus": 0}}, "gpus")],
)
def test_a_job_whose_spec_the_worker_cannot_read_fails_and_the_next_one_runs(
    service, start_agent, settings, change, problem
):
    refused = service.add_job(**change)
    attempt_id = service.add_job(steps=5)
    start_agent()
    end = service.wait_for_finish(refused)
    assert (end.outcome, end.failure.code) == ("failed", "bad_input")
    assert "this worker cannot read the job spec" in end.failure.message
    assert problem in end.failure.message
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"


def test_another_protocol_version_ends_the_worker_with_a_clear_message(service, start_agent):
    service.protocol_mismatch = True
    agent = start_agent()
    assert agent.on_fatal_event.wait(60)
    assert "same release" in agent.fatal


def test_the_worker_waits_for_a_service_that_starts_late(service, start_agent):
    service.is_away = True
    attempt_id = service.add_job(steps=2)
    start_agent()
    time.sleep(0.3)
    service.is_away = False
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"


def test_the_worker_keeps_its_id_and_takes_a_new_boot_id(service, start_agent):
    first = start_agent()
    service.wait_for(lambda: service.hellos)
    first.ask_to_stop()
    first.join()
    start_agent()
    service.wait_for(lambda: len(service.hellos) == 2)
    before, after = service.hellos
    assert before.worker_id == after.worker_id
    assert before.boot_id != after.boot_id


def test_a_fault_of_the_worker_is_retryable_with_its_trace_in_both_logs(
    service, start_agent, monkeypatch, tmp_path
):
    def fail(*_args, **_options):
        raise ImportError("no module named 'tables'")

    monkeypatch.setattr("worker.agent.attempt.attempt.fetch_bundle", fail)
    attempt_id = service.add_job(steps=3)
    start_agent()
    finish = service.wait_for_finish(attempt_id)
    assert (finish.outcome, finish.failure.code) == ("failed", "worker_fault")
    assert finish.failure.retryable
    assert finish.failure.message.endswith(": ImportError: no module named 'tables'")
    assert b"Traceback" in service.log[attempt_id]
    faults = json.loads((tmp_path / "worker" / "faults.json").read_text())
    assert faults["the worker"]["text"] == "ImportError: no module named 'tables'"
