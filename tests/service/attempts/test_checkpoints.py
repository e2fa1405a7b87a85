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


def test_a_spec_may_keep_more_of_the_newest_checkpoints():
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
    assert [item["step"] for item in claimed["checkpoints"]] == [40, 30, 10]
    assert [item["is_best"] for item in claimed["checkpoints"]] == [False, False, True]
    assert claimed["checkpoints"][0]["manifest"] == {"step": 40}
    assert job(job_id)["attempts"][1]["resumed_from_step"] == 40


@pytest.fixture
def steps(client):
    """Return the steps of a job's checkpoints, newest first, the best one marked."""

    def steps(job_id):
        kept = client.get(f"/v1/jobs/{job_id}/checkpoints").json()["data"]
        return [(item["step"], "best") if item["is_best"] else item["step"] for item in kept]

    return steps


def test_a_retry_from_a_step_offers_its_checkpoint_and_earlier_ones(client, submit, worker):
    job_id = submit(retry={"failures": 0}, training={"keep_checkpoints": 5})["id"]
    attempt = worker.claim()
    for step in (10, 20, 30, 40):
        attempt.checkpoint(step, is_best=step == 40)
    attempt.fail()
    client.post(f"/v1/jobs/{job_id}/retry", json={"from": 20})
    assert [item["step"] for item in worker.claim().claimed["checkpoints"]] == [20, 10]


@pytest.fixture
def fallen_back(submit, worker):
    """An attempt that was offered 20 (the best) and 10, but could only use 10."""
    submit()
    first = worker.claim()
    first.checkpoint(10)
    first.checkpoint(20, is_best=True)
    first.finish("released")
    second = worker.claim()
    second.report(("metrics", {"points": {}, "undone_after": 10}))
    return second


def test_an_attempt_that_cannot_use_the_newest_checkpoint_reports_its_choice(fallen_back, job):
    view = job(fallen_back.job_id)["attempts"][1]
    assert (view["resumed_from_step"], view["last_step"]) == (10, 10)


def test_an_attempt_that_can_use_no_checkpoint_starts_from_scratch(submit, worker, job):
    job_id = submit()["id"]
    first = worker.claim()
    first.report(("progress", {"step": 10, "steps": 100, "fraction": 0.1}))
    first.checkpoint(10)
    first.finish("released")
    second = worker.claim()
    second.report(("metrics", {"points": {}, "undone_after": 0}))
    view = job(job_id)
    assert view["attempts"][1]["resumed_from_step"] is None
    assert view["progress"] is None
    assert second.checkpoint(30).json() == {"kept_steps": [30]}


def test_a_checkpoint_at_step_zero_is_valid(submit, worker, job):
    submit()
    first = worker.claim()
    first.checkpoint(0)
    first.checkpoint(10)
    first.finish("released")
    second = worker.claim()
    second.report(("metrics", {"points": {}, "undone_after": 0}))
    assert job(second.job_id)["attempts"][1]["resumed_from_step"] == 0
    assert second.checkpoint(5).json() == {"kept_steps": [0, 5]}


def test_a_repeated_checkpoint_is_kept_before_its_run_reports_going_back(submit, worker):
    submit(training={"keep_checkpoints": 5})
    first = worker.claim()
    first.checkpoint(10)
    first.checkpoint(20, is_best=True)
    first.finish("released")
    second = worker.claim()
    assert second.checkpoint(20, is_best=True).json() == {"kept_steps": [10, 20]}
    second.report(("metrics", {"points": {}, "undone_after": 10}))
    assert second.checkpoint(30).json() == {"kept_steps": [10, 20, 30]}


@pytest.mark.parametrize(
    ("step", "is_best", "kept"),
    [
        (12, False, [12, 10]),
        (12, True, [(12, "best"), 10]),
        (20, False, [20, 10]),
        (25, False, [25, 10]),
    ],
)
def test_checkpoints_of_an_undone_run_are_replaced(fallen_back, steps, step, is_best, kept):
    response = fallen_back.checkpoint(step, is_best=is_best)
    assert (response.status_code, response.json()) == (200, {"kept_steps": [10, step]})
    assert steps(fallen_back.job_id) == kept


def test_a_checkpoint_below_the_newest_ones_replaces_them(submit, worker, steps):
    job_id = submit()["id"]
    attempt = worker.claim()
    for step in (10, 20, 30):
        attempt.checkpoint(step, is_best=step == 10)
    assert attempt.checkpoint(15).json() == {"kept_steps": [10, 15]}
    assert steps(job_id) == [15, (10, "best")]


def test_an_identical_repeated_checkpoint_belongs_to_the_new_run(fallen_back, services, steps):
    assert fallen_back.checkpoint(20).json() == {"kept_steps": [10, 20]}
    assert fallen_back.checkpoint(20).json() == {"kept_steps": [10, 20]}
    assert steps(fallen_back.job_id) == [20, 10]
    sha256 = fallen_back.upload(f"{fallen_back.job_id} at 20".encode())
    fallen_back.finish("released")
    collect_blobs(services)
    assert services.storage.stat(sha256) is not None


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
