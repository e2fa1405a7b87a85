import pytest

from redkiln.failure import FailureCode, JobFailure
from service.housekeeping import collect_blobs
from service.jobs.retry import POISON_DEATHS, Budgets, judge_failure, judge_loss

CRASH = JobFailure.of(FailureCode.CRASHED, "segfault")
BAD_INPUT = JobFailure.of(FailureCode.BAD_INPUT, "no such class")


@pytest.mark.parametrize(
    ("failure", "used", "allowed", "again"),
    [
        (CRASH, 0, 2, True),
        (CRASH, 1, 2, True),
        (CRASH, 2, 2, False),
        (CRASH, 0, 0, False),
        (BAD_INPUT, 0, 2, False),
    ],
)
def test_a_failure_is_retried_if_that_can_help_and_the_budget_allows_it(
    failure, used, allowed, again
):
    budgets = Budgets(max_failures=allowed, max_losses=0, failures_used=used)
    verdict = judge_failure(budgets, failure)
    assert verdict.should_requeue is again
    assert verdict.reason.code == failure.code
    assert verdict.budgets.failures_used == used + again
    assert verdict.budgets.losses_used == 0


@pytest.mark.parametrize(("used", "again"), [(0, True), (9, True), (10, False)])
def test_a_lost_worker_is_charged_to_its_own_budget(used, again):
    budgets = Budgets(max_failures=0, max_losses=10, losses_used=used)
    verdict = judge_loss(budgets, last_step=used * 100, message="gone")
    assert verdict.should_requeue is again
    assert verdict.reason.code == FailureCode.WORKER_LOST
    assert verdict.budgets.losses_used == used + again
    assert verdict.budgets.failures_used == 0


@pytest.mark.parametrize("step", [None, 0, 250])
def test_the_third_worker_dying_at_the_same_step_quarantines_the_job(step):
    budgets = Budgets(max_failures=2, max_losses=10)
    for _ in range(POISON_DEATHS - 1):
        verdict = judge_loss(budgets, last_step=step, message="gone")
        assert verdict.should_requeue
        budgets = verdict.budgets
    verdict = judge_loss(budgets, last_step=step, message="gone")
    assert not verdict.should_requeue
    assert verdict.reason.code == FailureCode.QUARANTINED


def test_workers_dying_at_different_steps_do_not_quarantine_the_job():
    budgets = Budgets(max_failures=2, max_losses=10)
    for step in (5, 5, 6, 6, 5, 5, None, None):
        verdict = judge_loss(budgets, last_step=step, message="gone")
        assert verdict.should_requeue
        budgets = verdict.budgets


class TestRetry:
    @pytest.fixture
    def failed(self, submit, worker):
        """A job that failed for good with checkpoints at 10 (the best), 20 and 30."""
        job_id = submit(retry={"failures": 0})["id"]
        attempt = worker.claim()
        attempt.checkpoint(10, is_best=True)
        attempt.checkpoint(20)
        attempt.checkpoint(30)
        attempt.fail()
        return job_id

    @pytest.mark.parametrize(
        ("body", "step", "left"),
        [
            ({}, 30, [30, 20, 10]),
            ({"from": "newest"}, 30, [30, 20, 10]),
            ({"from": "best"}, 10, [10]),
            ({"from": 20}, 20, [20, 10]),
            ({"from": "start"}, None, []),
        ],
    )
    def test_it_continues_from_the_chosen_checkpoint(
        self, failed, worker, steer, job, checkpoints, kinds, body, step, left
    ):
        response = steer(failed, "retry", **body)
        assert (response.status_code, response.json()["status"]) == (200, "queued")
        assert response.json()["finished_at"] is None
        assert [item["step"] for item in checkpoints(failed)] == left
        assert "retried" in kinds(failed)
        attempt = worker.claim()
        assert job(failed)["attempts"][-1]["resumed_from_step"] == step
        assert attempt.succeed().json() == {"job_status": "succeeded"}

    @pytest.mark.parametrize(
        ("place", "progress"),
        [("start", None), (20, (20, 0.2, 3)), ("newest", (30, 0.3, 4))],
    )
    def test_its_progress_is_set_back_to_the_checkpoint(
        self, submit, worker, steer, job, place, progress
    ):
        job_id = submit(retry={"failures": 0})["id"]
        attempt = worker.claim()
        far = {"epoch": 9, "epochs": 10, "step": 90, "steps": 100, "fraction": 0.9}
        attempt.report(("progress", {**far, "eta_seconds": 3.0, "metrics": {"lr": 0.1}}))
        for step in (20, 30):
            attempt.checkpoint(step)
        attempt.fail()
        told = steer(job_id, "retry", **{"from": place}).json()["progress"]
        if progress is None:
            assert told is None
        else:
            assert (told["step"], told["fraction"], told["epoch"]) == progress
            assert (told["steps"], told["eta_seconds"], told["metrics"]) == (100, None, {})
        assert job(job_id)["progress"] == told

    @pytest.mark.parametrize("steps", [0, 10])
    def test_progress_counted_differently_from_checkpoints_starts_again(
        self, submit, worker, steer, steps
    ):
        job_id = submit(retry={"failures": 0})["id"]
        attempt = worker.claim()
        far = {"epoch": 4, "epochs": 10, "step": 4, "steps": steps, "fraction": 0.4}
        attempt.report(("progress", far))
        attempt.checkpoint(20)
        attempt.fail()
        told = steer(job_id, "retry").json()["progress"]
        assert (told["step"], told["fraction"], told["epoch"]) == (20, 0.0, 0)

    def test_its_budgets_are_full_again(self, failed, worker, steer, job):
        steer(failed, "retry")
        worker.claim().fail()
        assert job(failed)["status"] == "failed"
        steer(failed, "retry")
        assert job(failed)["status"] == "queued"

    def test_a_cancelled_job_can_be_retried(self, submit, steer):
        job_id = submit()["id"]
        steer(job_id, "cancel")
        assert steer(job_id, "retry").json()["status"] == "queued"

    @pytest.mark.parametrize("place", [25, "best"])
    def test_a_missing_checkpoint_is_refused_with_a_list_of_the_others(
        self, submit, worker, steer, job, place
    ):
        job_id = submit(retry={"failures": 0})["id"]
        attempt = worker.claim()
        attempt.checkpoint(20)
        attempt.fail()
        response = steer(job_id, "retry", **{"from": place})
        assert response.status_code == 422
        assert response.json()["errors"][0]["pointer"] == "/from"
        assert "choose one of its steps: 20" in response.json()["detail"]
        assert job(job_id)["status"] == "failed"

    @pytest.mark.parametrize("place", ["newst", -1.5, None])
    def test_an_invalid_start_is_refused(self, failed, steer, place):
        response = steer(failed, "retry", **{"from": place})
        assert response.status_code == 422
        assert response.json()["errors"][0]["pointer"].startswith("/from")

    @pytest.mark.parametrize("end", ["running", "succeeded", "paused"])
    def test_only_failed_and_cancelled_jobs_can_be_retried(self, submit, worker, steer, end):
        job_id = submit()["id"]
        if end == "paused":
            steer(job_id, "pause")
        else:
            attempt = worker.claim()
            if end == "succeeded":
                attempt.succeed()
        response = steer(job_id, "retry")
        assert (response.status_code, response.json()["code"]) == (409, f"job_{end}")

    def test_files_of_the_failed_attempt_are_replaced_by_those_of_the_next(
        self, client, submit, worker, steer, services
    ):
        job_id = submit(retry={"failures": 0})["id"]
        attempt = worker.claim()
        sha256 = attempt.upload(b"old")
        manifest = {"kind": "manifest", "name": "manifest.json", "media_type": "application/json"}
        failure = {"code": "crashed", "message": "it broke", "retryable": True}
        artifacts = [{**manifest, "sha256": sha256, "size_bytes": 3}]
        attempt.finish("failed", failure=failure, artifacts=artifacts)
        steer(job_id, "retry")
        worker.claim().succeed(b"new")
        (artifact,) = client.get(f"/v1/jobs/{job_id}/artifacts").json()["data"]
        assert client.get(artifact["url"]).content == b"new"
        collect_blobs(services)
        assert services.storage.stat(sha256) is None
