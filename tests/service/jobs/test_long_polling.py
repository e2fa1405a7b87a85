import threading
import time


def test_a_request_waits_until_the_job_has_ended(client, submit, worker):
    job_id = submit()["id"]
    attempt = worker.claim()
    threading.Timer(0.3, attempt.succeed).start()
    assert client.get(f"/v1/jobs/{job_id}?wait=20").json()["status"] == "succeeded"


def test_a_request_waits_no_longer_than_it_says(client, submit):
    job_id = submit()["id"]
    began = time.monotonic()
    assert client.get(f"/v1/jobs/{job_id}?wait=0.3").json()["status"] == "queued"
    assert time.monotonic() - began >= 0.3


def test_a_job_that_has_ended_is_shown_at_once(client, submit):
    job_id = submit()["id"]
    client.post(f"/v1/jobs/{job_id}/cancel")
    assert client.get(f"/v1/jobs/{job_id}?wait=60").json()["status"] == "cancelled"


def test_a_wait_has_bounds_and_a_job(client, submit):
    assert client.get(f"/v1/jobs/{submit()['id']}?wait=61").status_code == 422
    assert client.get(f"/v1/jobs/{submit()['id']}?wait=-1").status_code == 422
    assert client.get("/v1/jobs/job_none?wait=5").status_code == 404
