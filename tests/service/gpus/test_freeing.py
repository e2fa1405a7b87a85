import pytest

CARD = "0000:03:00.0"
GPU = {"index": 0, "name": "RX 7900 XTX", "arch": "gfx1100", "pci_address": CARD}
KEPT = {"code": "kept_free", "message": "its owner wants it"}


@pytest.fixture
def gpu_worker(worker):
    worker.gpus = [GPU]
    assert worker.hello().status_code == 200
    return worker


@pytest.fixture
def tell(gpu_worker):
    """Send a status of the GPU; return the keys that the service wants to be kept free."""
    seq = iter(range(1, 100))

    def tell(*, attempt_id=None, excluded=None):
        state = {"key": CARD, "facts": {"gfx": "gfx1100", "pci_address": CARD},
                 "attempt_id": attempt_id, "excluded": excluded}  # fmt: skip
        body = {"worker_id": gpu_worker.id, "boot_id": gpu_worker.boot_id, "seq": next(seq),
                "gpus": [state]}  # fmt: skip
        response = gpu_worker.client.post(
            "/v1/workers/status", json=body, headers=gpu_worker.headers
        )
        assert response.status_code == 200, response.text
        return response.json()["kept_free"]

    return tell


@pytest.fixture
def free(client, gpu_worker):
    def free(method="POST"):
        return client.request(method, f"/v1/gpus/{gpu_worker.id}/{CARD}/free")

    return free


def test_the_job_is_paused_and_the_gpu_kept_free_until_it_is_given_back(
    submit, gpu_worker, tell, free, job
):
    job_id = submit()["id"]
    attempt = gpu_worker.claim()
    assert tell(attempt_id=attempt.id) == []

    answer = free()
    hold = answer.json()["hold"]
    assert (answer.status_code, hold["status"], hold["job_id"]) == (202, "freeing", job_id)
    assert hold["expected_seconds"] > 0
    assert job(job_id)["status"] == "pausing"
    assert tell(attempt_id=attempt.id) == [CARD]
    early = free("DELETE")
    assert (early.status_code, early.json()["code"]) == (409, "job_pausing")

    attempt.finish("paused")
    assert free().json()["hold"]["status"] == "freeing"  # the worker may still offer the GPU
    assert tell(excluded=KEPT) == [CARD]
    assert (free().status_code, free().json()["hold"]["status"]) == (200, "free")
    assert gpu_worker.ask(devices=[], arches=[]).status_code == 204

    back = free("DELETE")
    assert (back.status_code, back.json()["hold"]) == (200, None)
    assert job(job_id)["status"] == "queued"
    assert tell() == []
    assert gpu_worker.claim().job_id == job_id


def test_no_job_slips_in_before_the_worker_has_learnt_of_it(submit, gpu_worker, tell, free):
    submit()
    tell()
    assert free().json()["hold"]["job_id"] is None
    assert gpu_worker.ask().status_code == 204
    assert gpu_worker.ask(devices=["cpu", "gpu"]).status_code in (200, 204)
    tell(excluded=KEPT)
    assert gpu_worker.ask().status_code == 200  # for another GPU, which the worker offers


def test_a_restarted_worker_gets_the_kept_gpus_again(submit, gpu_worker, tell, free):
    tell()
    free()
    tell(excluded=KEPT)
    submit()
    gpu_worker.boot_id = "boot-2"
    gpu_worker.hello()
    assert gpu_worker.ask().status_code == 204
    assert tell() == [CARD]


def test_a_finished_job_is_not_resumed(client, submit, gpu_worker, tell, free, job):
    job_id = submit()["id"]
    attempt = gpu_worker.claim()
    tell(attempt_id=attempt.id)
    free()
    client.post(f"/v1/jobs/{job_id}/cancel")
    attempt.finish("cancelled")
    assert free("DELETE").status_code == 200
    assert job(job_id)["status"] == "cancelled"


def test_the_expected_time_is_that_of_earlier_pauses(submit, gpu_worker, tell, free, client):
    job_id = submit()["id"]
    attempt = gpu_worker.claim()
    client.post(f"/v1/jobs/{job_id}/pause")
    attempt.finish("paused")
    client.post(f"/v1/jobs/{job_id}/resume")
    tell(attempt_id=gpu_worker.claim().id)
    assert free().json()["hold"]["expected_seconds"] < 3


def test_the_overview_shows_the_hold(client, tell, free):
    tell()
    free()
    (gpu,) = client.get("/v1/overview").json()["gpus"]
    assert gpu["hold"]["status"] == "freeing"


def test_a_job_that_began_just_before_is_paused_by_the_next_request(
    submit, gpu_worker, tell, free, job
):
    tell()
    job_id = submit()["id"]
    attempt = gpu_worker.claim()
    assert free().json()["hold"]["job_id"] is None  # its worker has not said where it runs
    tell(attempt_id=attempt.id)
    assert free().json()["hold"]["job_id"] == job_id
    assert job(job_id)["status"] == "pausing"


def test_a_silent_workers_gpu_is_free_after_a_while(services, tell, free):
    tell()
    assert free().status_code == 202
    services.settings.status_seconds = 0
    assert free().status_code == 200


def test_an_unknown_gpu_is_404(client, gpu_worker):
    for method in ("POST", "DELETE"):
        path = f"/v1/gpus/{gpu_worker.id}/0000:99:00.0/free"
        assert client.request(method, path).status_code == 404
