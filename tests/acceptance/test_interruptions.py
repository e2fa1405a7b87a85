"""Whatever is stopped, killed or lost: jobs go on, and nothing is lost."""

import pytest

from tests.acceptance.stack import PARTS, run, wait_until

pytestmark = pytest.mark.acceptance

LONG = {"steps": 1500, "batch_size": 16, "checkpoint_seconds": 1}


def start_long_job(stack):
    """A job that trains for a while and commits every second; its id once it has committed."""
    job_id = stack.submit(dataset="builtin:digits", training=LONG)
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


def test_a_stopped_stack_goes_on_where_it_stopped(running):
    job_id, committed = start_long_job(running)
    running.compose("stop")
    for part in PARTS:
        state = running.inspect(part)["State"]
        assert state["ExitCode"] == 0, f"{part} was killed, or failed: {state}"
    running.up()
    wait_until(running.is_answering, seconds=60, what="the service answers")
    job = running.wait_for_success(job_id)
    first, second = job["attempts"]
    assert first["status"] == "released"
    assert second["resumed_from_step"] >= committed
    assert second["resumed_from_step"] == first["last_step"]
    assert_nothing_lost(running, job_id)


def test_jobs_survive_the_death_of_any_part(running):
    job_id, committed = start_long_job(running)
    running.kill_main_process("redis")
    running.wait_healthy("redis")
    committed = running.wait_for_commit(job_id, after_step=committed)
    running.kill_main_process("service")
    running.wait_healthy("service")
    committed = running.wait_for_commit(job_id, after_step=committed)
    assert len(running.job(job_id)["attempts"]) == 1, "training did not stop for either"
    running.kill_main_process("worker")
    job = running.wait_for_success(job_id)
    assert job["attempts"][1]["resumed_from_step"] >= committed
    assert_nothing_lost(running, job_id)


@pytest.mark.parametrize("part", PARTS)
def test_what_docker_kill_ended_is_started_by_hand(running, part):
    job_id, committed = start_long_job(running)
    run("docker", "kill", running.container(part))
    running.up()
    job = running.wait_for_success(job_id)
    if part == "worker":
        assert job["attempts"][1]["resumed_from_step"] >= committed
    else:
        assert len(job["attempts"]) == 1
    assert_nothing_lost(running, job_id)


def test_a_new_version_of_the_service_lets_running_jobs_finish(running):
    job_id, _ = start_long_job(running)
    running.up("--no-deps", "--force-recreate", "service")
    job = running.wait_for_success(job_id)
    assert len(job["attempts"]) == 1
    assert_nothing_lost(running, job_id)


def test_queued_jobs_run_without_the_queues_memory(running):
    running.compose("stop", "worker")
    job_id = running.submit(dataset="builtin:digits", training={"steps": 20})
    running.compose("rm", "--stop", "--force", "redis")
    run("docker", "volume", "rm", running.volume("redis"))
    running.up()
    running.wait_for_success(job_id)


def test_down_without_volumes_keeps_everything(running, picture_zip):
    dataset = running.upload("kept", picture_zip)
    job_id = running.submit(dataset="builtin:digits", training={"steps": 20})
    before = running.wait_for_success(job_id)
    artifacts = running.artifacts(job_id)
    running.down()
    assert running.container("service") == ""
    running.up()
    running.wait_healthy()
    assert running.job(job_id) == before
    assert running.artifacts(job_id) == artifacts
    assert running.get(f"/v1/datasets/{dataset['id']}") == dataset
    assert_nothing_lost(running, job_id)
