"""Jobs survive any part being stopped, killed or lost, and lose nothing."""

import pytest

from tests.acceptance.stack import ENDLESS, PARTS, run

pytestmark = pytest.mark.acceptance


def start(stack):
    """A job on the digits that trains on, and the step of its first committed checkpoint."""
    job_id = stack.submit(dataset="builtin:digits", training=ENDLESS)
    return job_id, stack.wait_for_commit(job_id)


def assert_nothing_lost(stack, job_id):
    """Every event once, in its order, and the artifacts whole."""
    numbers = [event["seq"] for event in stack.events(job_id)]
    assert numbers == list(range(1, len(numbers) + 1))
    artifacts = stack.artifacts(job_id)
    assert any(name.endswith(".onnx") for name in artifacts)
    for each in artifacts.values():
        content = stack.call("GET", f"/v1/artifacts/{each['id']}/content").content
        assert len(content) == each["size_bytes"]


def test_a_restarted_stack_resumes_its_jobs(running):
    job_id, committed = start(running)
    running.compose("stop")
    codes = {part: running.inspect(part)["State"]["ExitCode"] for part in PARTS}
    # 143 is SIGTERM after an orderly end, 137 would be the engine's SIGKILL
    assert codes == {"redis": 0, "service": 143, "worker": 0}
    running.up()
    job = running.finish(job_id, attempt=2)
    first, second, _ = job["attempts"]
    assert [each["status"] for each in job["attempts"]] == ["released", "paused", "succeeded"]
    left = [event["data"]["step"] for event in running.events(job_id)
            if event["kind"] == "committed" and event["attempt_id"] == first["id"]]  # fmt: skip
    assert second["resumed_from_step"] == max(left) > committed
    assert_nothing_lost(running, job_id)


def test_jobs_survive_the_death_of_any_part(running):
    job_id, committed = start(running)
    running.kill_main_process("redis")
    running.wait_healthy("redis")
    committed = running.wait_for_commit(job_id, after_step=committed)
    running.kill_main_process("service")
    running.wait_healthy("service")
    committed = running.wait_for_commit(job_id, after_step=committed)
    assert len(running.job(job_id)["attempts"]) == 1, "training stopped for one of them"
    running.kill_main_process("worker")
    job = running.finish(job_id, attempt=2)
    assert job["attempts"][1]["resumed_from_step"] >= committed
    assert_nothing_lost(running, job_id)


def test_what_docker_kill_ended_is_started_by_hand(running):
    job_id, committed = start(running)
    for part in ("redis", "service"):
        run("docker", "kill", running.container(part))
        running.up()
        running.wait_healthy(part)
        committed = running.wait_for_commit(job_id, after_step=committed)
    assert len(running.job(job_id)["attempts"]) == 1, "training stopped for one of them"
    run("docker", "kill", running.container("worker"))
    running.up()
    job = running.finish(job_id, attempt=2)
    assert job["attempts"][1]["resumed_from_step"] >= committed
    assert_nothing_lost(running, job_id)


def test_a_new_version_of_the_service_lets_running_jobs_finish(running):
    job_id, committed = start(running)
    before = running.container("service")
    running.up("--no-deps", "--force-recreate", "service")
    assert running.container("service") != before
    committed = running.wait_for_commit(job_id, after_step=committed)
    job = running.finish(job_id, attempt=1)
    first, _ = job["attempts"]
    assert (first["status"], first["resumed_from_step"]) == ("paused", None)
    assert job["progress"]["step"] >= committed
    assert_nothing_lost(running, job_id)


def test_queued_jobs_run_without_the_queues_memory(running):
    running.compose("stop", "worker")
    job_id = running.submit(dataset="builtin:digits", training={"steps": 20})
    running.compose("rm", "--stop", "--force", "redis", "init")
    run("docker", "volume", "rm", running.volume("redis"))
    running.up()
    running.wait_for_success(job_id)


def test_down_without_volumes_keeps_everything(running, finished_job, picture_zip):
    dataset = running.upload("kept", picture_zip)
    job_id = finished_job["id"]
    artifacts = running.artifacts(job_id)
    running.down()
    assert running.container("service") == ""
    running.up()
    running.wait_healthy()
    assert running.job(job_id) == finished_job
    assert running.artifacts(job_id) == artifacts
    assert running.get(f"/v1/datasets/{dataset['id']}") == dataset
    assert_nothing_lost(running, job_id)
