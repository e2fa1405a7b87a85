"""A worker that shares nothing with the service but URLs and its key."""

import pytest

from tests.acceptance.stack import ENDLESS, find_free_address

pytestmark = pytest.mark.acceptance

SHORT = {"steps": 20, "batch_size": 16}


@pytest.fixture
def published(running, gateway):
    """The stack, published where containers of another network reach it; back afterwards."""
    at_home = running.variables["REDKILN_BIND"]
    running.variables["REDKILN_BIND"] = find_free_address(gateway)
    running.up()
    running.wait_healthy()
    yield running
    running.key = None
    running.variables["REDKILN_BIND"] = at_home
    running.up()
    running.wait_healthy()


def test_a_remote_worker_resumes_the_job_of_another_worker(published, build_stack, picture_zip):
    assert published.call("GET", "/v1/jobs").status_code == 401
    assert "redkiln keys show" in published.logs("service")
    published.key = published.execute("service", "redkiln", "keys", "show").stdout.strip()
    published.wait_for_workers(1)

    published.upload("remote", picture_zip)
    job_id = published.submit(dataset="remote", model="mnist-cnn", training=ENDLESS)
    committed = published.wait_for_commit(job_id)
    published.compose("stop", "worker")

    worker_key = published.execute("service", "cat", "/secrets/keys/worker.key").stdout.strip()
    remote = build_stack(
        "remote", "compose.worker.yaml", "compose.cpu.yaml",
        REDKILN_SERVICE_URL=published.url, REDKILN_WORKER_KEY=worker_key,
    )  # fmt: skip
    remote.up()
    job = published.finish(job_id, attempt=2)
    first, second, _ = job["attempts"]
    assert first["worker_id"] != second["worker_id"]
    assert second["resumed_from_step"] >= committed
    artifacts = published.artifacts(job_id)
    assert artifacts["model.onnx"]["verified"]
    fresh = published.wait_for_success(published.submit(dataset="builtin:digits", training=SHORT))
    assert [each["worker_id"] for each in fresh["attempts"]] == [second["worker_id"]]
    networks = set(remote.inspect("worker")["NetworkSettings"]["Networks"])
    assert networks.isdisjoint(published.inspect("service")["NetworkSettings"]["Networks"])
    mounts = {mount.get("Name") for mount in remote.inspect("worker")["Mounts"]}
    others = {mount.get("Name") for mount in published.inspect("service")["Mounts"]}
    assert not (mounts & others) - {None}
