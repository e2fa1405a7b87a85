import pytest

from service.attempts.checkpoints import choose_kept
from service.housekeeping import collect_blobs, reap_expired


@pytest.mark.parametrize(
    ("checkpoints", "kept"),
    [
        ([], set()),
        ([(10, False)], {10}),
        ([(10, False), (20, False), (30, False)], {20, 30}),
        ([(10, True), (20, False), (30, False), (40, False)], {10, 30, 40}),
        ([(10, False), (20, True), (30, False)], {20, 30}),
    ],
)
def test_the_best_and_the_last_two_checkpoints_are_kept(checkpoints, kept):
    assert choose_kept(checkpoints) == kept


def test_a_spec_may_ask_for_more_of_the_newest_to_be_kept():
    checkpoints = [(10, True), (20, False), (30, False), (40, False), (50, False)]
    assert choose_kept(checkpoints, newest=3) == {10, 30, 40, 50}
    assert choose_kept(checkpoints, newest=1) == {10, 50}


def test_the_next_attempt_resumes_from_the_newest_and_knows_the_best(
    submit, worker, other_worker, expire, services, job
):
    job_id = submit()["id"]
    attempt = worker.claim()
    assert attempt.checkpoint(10, is_best=True).json() == {"kept_steps": [10]}
    attempt.checkpoint(20)
    attempt.checkpoint(30)
    assert attempt.checkpoint(40).json() == {"kept_steps": [10, 30, 40]}
    expire(attempt)
    reap_expired(services)
    claimed = other_worker.claim().claimed
    assert [item["step"] for item in claimed["checkpoints"]] == [40, 10]
    assert claimed["checkpoints"][0]["manifest"] == {"step": 40}
    assert job(job_id)["attempts"][1]["resumed_from_step"] == 40


def test_a_checkpoint_is_fetched_with_the_attempts_token(client, submit, worker):
    submit()
    first = worker.claim()
    first.checkpoint(10, data=b"state")
    first.finish("released")
    second = worker.claim()
    sha256 = second.claimed["checkpoints"][0]["sha256"]
    path = f"/v1/attempts/{second.id}/blobs/{sha256}"
    assert client.get(path, headers=second.headers).content == b"state"
    assert client.get(path, headers=first.headers).status_code == 401
    other = f"/v1/attempts/{second.id}/blobs/{'0' * 64}"
    assert client.get(other, headers=second.headers).status_code == 404


def test_committing_again_changes_nothing(submit, worker, kinds):
    job_id = submit()["id"]
    attempt = worker.claim()
    assert attempt.checkpoint(10).json() == attempt.checkpoint(10).json()
    assert kinds(job_id).count("committed") == 1


def test_a_checkpoint_that_is_not_stored_is_refused(submit, worker):
    submit()
    response = worker.claim().post(
        "checkpoints", step=1, sha256="0" * 64, size_bytes=5, manifest={}
    )
    assert (response.status_code, response.json()["code"]) == (422, "blob_missing")


def test_dropped_checkpoints_leave_the_storage_and_kept_ones_stay(submit, worker, services):
    submit()
    attempt = worker.claim()
    stored = {}
    for step in (10, 20, 30):
        data = str(step).encode()
        attempt.checkpoint(step, data=data)
        stored[step] = attempt.upload(data) if step != 10 else attempt.upload(b"10")
    collect_blobs(services)
    assert services.storage.stat(stored[10]) is not None, "the attempt still holds it"
    attempt.finish("released")
    collect_blobs(services)
    found = {step: services.storage.stat(sha256) is not None for step, sha256 in stored.items()}
    assert found == {10: False, 20: True, 30: True}


def test_an_ended_job_keeps_no_checkpoint(submit, worker, services):
    submit()
    attempt = worker.claim()
    attempt.checkpoint(10, data=b"state")
    sha256 = attempt.upload(b"state")
    attempt.succeed()
    collect_blobs(services)
    assert services.storage.stat(sha256) is None
