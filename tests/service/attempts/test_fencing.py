"""A worker that has lost its attempt can no longer change anything."""

from service.housekeeping import reap_expired

CRASHED = {"code": "crashed", "message": "segfault", "retryable": True}


def test_an_expired_lease_gives_the_job_to_another_worker(
    submit, worker, other_worker, expire, services, job
):
    job_id = submit()["id"]
    attempt = worker.claim()
    assert reap_expired(services) == 0
    expire(attempt)
    assert reap_expired(services) == 1
    assert reap_expired(services) == 0
    assert job(job_id)["attempts"][0]["failure"]["code"] == "worker_lost"
    again = other_worker.claim()
    assert (again.job_id, again.claimed["fence"]) == (job_id, 2)


def test_a_worker_that_wakes_after_its_lease_changes_nothing(
    client, submit, worker, other_worker, expire, services, job, kinds
):
    job_id = submit()["id"]
    zombie = worker.claim()
    sha256 = zombie.upload(b"zombie")
    expire(zombie)
    reap_expired(services)
    other_worker.claim()
    before = (job(job_id), kinds(job_id))
    commit = {"step": 1, "sha256": sha256, "size_bytes": 6, "manifest": {}}
    artifact = {"name": "a", "kind": "log", "media_type": "text/plain", "sha256": sha256,
                "size_bytes": 6}  # fmt: skip
    answers = [
        zombie.report(("message", {"text": "I live"}), log=(0, b"zombie")),
        zombie.post("checkpoints", **commit),
        zombie.finish("succeeded", artifacts=[artifact]),
        zombie.finish("failed", failure=CRASHED),
        client.put(
            f"/v1/attempts/{zombie.id}/blobs/{sha256}",
            content=b"zombie",
            headers=zombie.headers,
        ),
        client.get(f"/v1/attempts/{zombie.id}/dataset", headers=zombie.headers),
    ]
    assert [answer.status_code for answer in answers] == [409] * len(answers)
    assert {answer.json()["code"] for answer in answers} == {"superseded"}
    assert (job(job_id), kinds(job_id)) == before
    assert client.get(f"/v1/jobs/{job_id}/logs").text == ""


def test_a_late_report_renews_an_expired_lease(submit, worker, expire, services, job):
    job_id = submit()["id"]
    attempt = worker.claim()
    expire(attempt)
    assert attempt.report().status_code == 200
    assert reap_expired(services) == 0
    assert job(job_id)["status"] == "running"
