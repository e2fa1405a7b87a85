"""Workers send hello before anything else, and again after a restart."""


def test_another_protocol_version_is_refused(worker):
    response = worker.hello(protocol=2)
    assert (response.status_code, response.json()["code"]) == (426, "protocol_mismatch")
    assert response.json()["protocol"] == 1


def test_a_restarted_worker_loses_its_attempts_at_once(submit, worker, job, kinds):
    job_id = submit()["id"]
    attempt = worker.claim()
    worker.boot_id = "boot-2"
    worker.hello()
    assert job(job_id)["status"] == "queued"
    assert job(job_id)["reason"]["code"] == "worker_lost"
    assert worker.claim().claimed["number"] == 2
    assert attempt.report().json()["code"] == "superseded"
    assert kinds(job_id) == ["submitted", "started", "requeued", "started"]


def test_the_same_process_may_send_hello_again(submit, worker, job):
    job_id = submit()["id"]
    worker.claim()
    worker.hello()
    assert job(job_id)["status"] == "running"


def test_workers_are_listed_with_what_they_run(client, submit, worker):
    submit()
    attempt = worker.claim()
    view = client.get("/v1/workers").json()["data"][0]
    assert view["is_live"] is True
    assert view["lag_seconds"] < 5
    assert view["attempts"] == [attempt.id]


def test_a_worker_needs_a_worker_key(worker, settings, client):
    worker.key = (settings.keys_dir / "admin.key").read_text().strip()
    assert worker.hello().status_code == 403
    worker.key = "rk_nothing"
    assert worker.hello().status_code == 401
