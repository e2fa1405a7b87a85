import os
import signal
import time

import pytest

from worker.agent.attempt.recorder import Recorder


def test_without_a_spare_the_start_is_cold_and_reported(service, start_agent):
    attempt_id = service.add_job(steps=2)
    start_agent(spare=False)
    service.wait_for_finish(attempt_id)
    assert b"warm=False" in service.log[attempt_id]
    assert messages(service, attempt_id) == [
        "the trainer starts cold: spares are switched off",
        "export warm=False",
    ]


def messages(service, attempt_id):
    return [e.data["text"] for e in service.events[attempt_id] if e.kind == "message"]


def test_the_export_child_is_warm_when_the_training_ends(service, start_agent):
    attempt_id = service.add_job(steps=10)
    start_agent()
    service.wait_for_finish(attempt_id)
    assert messages(service, attempt_id) == ["export warm=True"]


def test_the_events_of_a_child_that_exits_before_it_is_watched_are_read(
    service, start_agent, monkeypatch
):
    follow = Recorder.follow

    def follow_late(*arguments):
        time.sleep(0.5)  # a starved agent; the warm child needs none of it
        follow(*arguments)

    monkeypatch.setattr(Recorder, "follow", follow_late)
    attempt_id = service.add_job(steps=10)
    start_agent()
    finish = service.wait_for_finish(attempt_id)
    assert (finish.outcome, finish.failure) == ("succeeded", None)


def test_the_export_child_of_a_cancelled_job_waits_for_the_next_one(service, start_agent):
    agent = start_agent()
    pid = wait_for_export_child(service, agent)
    attempt_id = service.add_job(steps=100, step_seconds=0.02)
    service.wait_for(lambda: "progress" in service.kinds(attempt_id))
    service.cancelled.add(attempt_id)
    assert service.wait_for_finish(attempt_id).outcome == "cancelled"
    assert wait_for_export_child(service, agent) == pid


def test_an_export_child_that_has_rehearsed_serves_no_other_job(service, start_agent):
    agent = start_agent()
    pid = wait_for_export_child(service, agent)
    attempt_id = service.add_job(steps=100, step_seconds=0.02, rehearse=True)
    service.wait_for(lambda: "progress" in service.kinds(attempt_id))
    service.cancelled.add(attempt_id)
    assert service.wait_for_finish(attempt_id).outcome == "cancelled"
    service.wait_for(lambda: wait_for_export_child(service, agent) != pid)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_killed_export_child_only_makes_the_export_cold(service, start_agent):
    agent = start_agent()
    pid = wait_for_export_child(service, agent)
    attempt_id = service.add_job(steps=100, step_seconds=0.02, eta_seconds=60.0)
    service.wait_for(lambda: "progress" in service.kinds(attempt_id))
    os.kill(pid, signal.SIGKILL)
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
    assert messages(service, attempt_id) == ["export warm=False"]


def test_a_long_training_gets_the_memory_of_the_export_child(service, start_agent):
    agent = start_agent()
    export = agent._parts.slots.slots[0].resources.launcher._export
    wait_for_export_child(service, agent)
    attempt_id = service.add_job(steps=10_000, step_seconds=0.01, eta_seconds=3600.0)
    service.wait_for(lambda: "progress" in service.kinds(attempt_id))
    service.wait_for(lambda: export.pid is None)


def wait_for_export_child(service, agent):
    return service.wait_for(lambda: agent._parts.slots.slots[0].resources.launcher._export.pid)


def test_a_killed_spare_is_replaced_and_the_job_still_starts(service, start_agent):
    agent = start_agent()
    launcher = agent._parts.slots.slots[0].resources.launcher
    pid = service.wait_for(lambda: launcher.spare_pid)
    os.kill(pid, signal.SIGKILL)
    service.wait_for(lambda: launcher.spare_pid != pid)
    attempt_id = service.add_job(steps=2)
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
