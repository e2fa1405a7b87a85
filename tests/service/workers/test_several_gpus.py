"""Jobs and the GPUs of a worker: several at once, and temporarily excluded ones."""

import pytest

import service.workers.eligibility

ADDRESSES = ("0000:03:00.0", "0000:43:00.0")


@pytest.fixture
def pair(worker):
    worker.gpus = [
        {"index": n, "name": "MI300X", "arch": "gfx942", "pci_address": address}
        for n, address in enumerate(ADDRESSES)
    ]
    worker.hello()
    return worker


@pytest.fixture
def submit_pair(submit):
    """Submits a job for two GPUs."""
    return lambda: submit(resources={"gpus": 2, "device": "gpu"})["id"]


def exclude(worker, code):
    gpus = [
        {"key": address, "facts": {}, "excluded": {"code": code, "message": "because"}}
        for address in ADDRESSES
    ]
    body = {"worker_id": worker.id, "boot_id": worker.boot_id, "seq": 1, "gpus": gpus}
    worker.client.post("/v1/workers/status", json=body, headers=worker.headers)


def test_a_job_for_two_gpus_is_claimed_when_both_are_free(pair, submit, submit_pair):
    both = submit_pair()
    single = submit()["id"]
    assert pair.claim(arches=["gfx942"]).job_id == single
    assert pair.claim(arches=["gfx942", "gfx942"]).job_id == both


def test_a_job_for_two_gpus_is_not_overtaken_for_ever(pair, submit, submit_pair, monkeypatch):
    both = submit_pair()
    submit()
    monkeypatch.setattr(service.workers.eligibility, "HOLD_BACK_SECONDS", 0.0)
    assert pair.ask(arches=["gfx942"]).status_code == 204
    assert pair.claim(arches=["gfx942", "gfx942"]).job_id == both


def test_a_worker_with_an_excluded_gpu_runs_jobs_on_the_other(
    pair, submit, submit_pair, monkeypatch
):
    monkeypatch.setattr(service.workers.eligibility, "HOLD_BACK_SECONDS", 0.0)
    submit_pair()
    single = submit()["id"]
    exclude(pair, "memory_held")
    assert pair.claim(arches=["gfx942"]).job_id == single


@pytest.mark.parametrize(
    ("code", "status"),
    [("memory_held", 202), ("self_test_running", 202), ("self_test_failed", 422)],
)
def test_a_job_may_wait_for_a_temporarily_excluded_gpu(client, pair, code, status):
    exclude(pair, code)
    body = {"dataset": "builtin:digits", "resources": {"device": "gpu"}}
    assert client.post("/v1/jobs", json=body).status_code == status


def test_a_deselected_gpu_does_not_count(pair, submit, other_worker):
    exclude(pair, "not_wanted")
    job_id = submit(resources={"device": "any"})["id"]
    other_worker.hello()
    assert other_worker.claim().job_id == job_id
