"""Pausing, resuming and finishing a job, as its user and its worker see it."""

import pytest

from service.housekeeping import collect_blobs, forget_old_checkpoints, reap_expired


class TestPause:
    def test_a_queued_job_is_paused_at_once_and_not_claimed(self, submit, worker, steer):
        job_id = submit()["id"]
        response = steer(job_id, "pause")
        assert (response.status_code, response.json()["status"]) == (200, "paused")
        assert not response.json()["is_terminal"]
        assert worker.ask().status_code == 204
        assert steer(job_id, "resume").json()["status"] == "queued"
        assert worker.claim().job_id == job_id

    def test_a_running_job_is_paused_when_its_worker_has_stopped(
        self, submit, worker, steer, job, kinds
    ):
        job_id = submit()["id"]
        attempt = worker.claim()
        response = steer(job_id, "pause")
        assert (response.status_code, response.json()["status"]) == (202, "pausing")
        assert attempt.report().json()["command"] == "pause"
        attempt.checkpoint(40)
        assert attempt.finish("paused").json() == {"job_status": "paused"}
        assert job(job_id)["attempts"][0]["status"] == "paused"
        assert job(job_id)["reason"]["code"] == "paused"

        steer(job_id, "resume")
        second = worker.claim()
        assert second.claimed["checkpoints"][0]["step"] == 40
        assert second.report().json()["command"] == "continue"
        assert kinds(job_id)[-5:] == ["pausing", "committed", "paused", "resumed", "started"]

    def test_pausing_does_not_use_the_retry_budgets(self, submit, worker, steer, job):
        job_id = submit(retry={"failures": 0, "lost_workers": 0})["id"]
        for _ in range(3):
            attempt = worker.claim()
            steer(job_id, "pause")
            attempt.finish("paused")
            steer(job_id, "resume")
        assert job(job_id)["status"] == "queued"

    @pytest.mark.parametrize(
        ("outcome", "status"),
        [("lost", "paused"), ("released", "paused"), ("succeeded", "succeeded")],
    )
    def test_a_pausing_job_whose_worker_did_not_pause_it_gets_the_right_status(
        self, submit, worker, steer, expire, services, job, outcome, status
    ):
        job_id = submit()["id"]
        attempt = worker.claim()
        steer(job_id, "pause")
        if outcome == "lost":
            expire(attempt)
            reap_expired(services)
        elif outcome == "succeeded":
            attempt.succeed()
        else:
            attempt.finish("released")
        assert job(job_id)["status"] == status

    def test_a_permanent_failure_still_fails_a_job_that_is_pausing(
        self, submit, worker, steer, job
    ):
        job_id = submit()["id"]
        attempt = worker.claim()
        steer(job_id, "pause")
        attempt.fail("bad_input", retryable=False)
        assert job(job_id)["status"] == "failed"

    def test_a_cancel_wins_over_a_pause(self, submit, worker, steer, job):
        job_id = submit()["id"]
        attempt = worker.claim()
        steer(job_id, "pause")
        assert steer(job_id, "cancel").json()["status"] == "cancelling"
        assert attempt.finish("paused").json() == {"job_status": "cancelled"}

    def test_a_paused_job_can_be_cancelled(self, submit, steer):
        job_id = submit()["id"]
        steer(job_id, "pause")
        assert steer(job_id, "cancel").json()["status"] == "cancelled"

    def test_repeating_an_action_changes_nothing(self, submit, worker, steer):
        job_id = submit()["id"]
        assert steer(job_id, "resume").json()["status"] == "queued"
        assert [steer(job_id, "pause").json()["status"] for _ in range(2)] == ["paused"] * 2
        steer(job_id, "resume")
        attempt = worker.claim()
        assert [steer(job_id, "pause").json()["status"] for _ in range(2)] == ["pausing"] * 2
        response = steer(job_id, "resume")
        assert (response.status_code, response.json()["code"]) == (409, "job_pausing")
        attempt.finish("paused")

    def test_a_paused_job_can_continue_with_another_engine(self, client, submit, steer):
        job_id = submit()["id"]
        body = {"json": {"engine": "tinygrad"}}
        refused = client.post(f"/v1/jobs/{job_id}/resume", **body)
        assert (refused.status_code, refused.json()["code"]) == (409, "job_queued")
        steer(job_id, "pause")
        job = client.post(f"/v1/jobs/{job_id}/resume", **body).json()
        assert (job["status"], job["spec"]["resources"]["engine"]) == ("queued", "tinygrad")

    def test_an_engine_that_cannot_train_the_job_is_refused(self, client, submit, steer):
        job_id = submit(training={"precision": "bf16"})["id"]
        steer(job_id, "pause")
        response = client.post(f"/v1/jobs/{job_id}/resume", json={"engine": "tinygrad"})
        assert response.status_code == 422
        assert response.json()["errors"][0]["pointer"] == "/training/precision"
        assert client.get(f"/v1/jobs/{job_id}").json()["status"] == "paused"

    @pytest.mark.parametrize("verb", ["pause", "resume"])
    def test_a_job_that_has_ended_is_neither_paused_nor_resumed(self, submit, worker, steer, verb):
        job_id = submit()["id"]
        worker.claim().succeed()
        response = steer(job_id, verb)
        assert (response.status_code, response.json()["code"]) == (409, "job_succeeded")

    def test_an_unknown_job_is_404(self, steer):
        assert steer("job_0000000000000000000000", "pause").status_code == 404


class TestFinish:
    @pytest.fixture
    def trained(self, submit, worker):
        """A running job with checkpoints of the steps 10 (the best) and 20, and its attempt."""
        job_id = submit()["id"]
        attempt = worker.claim()
        attempt.checkpoint(10, is_best=True)
        attempt.checkpoint(20)
        return job_id, attempt

    def test_a_running_job_stops_and_its_next_attempt_exports(
        self, trained, worker, steer, job, kinds
    ):
        job_id, attempt = trained
        response = steer(job_id, "finish")
        assert (response.status_code, response.json()["status"]) == (202, "pausing")
        assert response.json()["reason"]["code"] == "finishing"
        assert attempt.report().json()["command"] == "pause"
        assert attempt.finish("paused").json() == {"job_status": "queued"}

        second = worker.claim()
        assert second.claimed["is_finishing"]
        assert second.claimed["checkpoints"][0]["step"] == 20
        second.succeed()
        assert job(job_id)["status"] == "succeeded"
        assert "finishing" in kinds(job_id)

    def test_it_is_the_first_of_its_priority(self, submit, worker, steer, job):
        older, urgent = submit()["id"], submit(priority=3)["id"]
        steer(older, "pause")
        urgent_attempt = worker.claim()
        urgent_attempt.finish("released")
        steer(urgent, "pause")
        later = submit()["id"]
        attempt = worker.claim()
        assert attempt.job_id == later
        attempt.checkpoint(10)
        for each in (older, urgent):
            steer(each, "resume")
        steer(later, "finish")
        attempt.finish("paused")
        assert [job(each)["queue_position"] for each in (urgent, later, older)] == [1, 2, 3]

    @pytest.mark.parametrize("verb", ["pause", "cancel"])
    def test_a_job_that_was_stopped_can_still_be_exported(self, trained, worker, steer, verb):
        job_id, attempt = trained
        steer(job_id, verb)
        attempt.finish("paused" if verb == "pause" else "cancelled")
        assert steer(job_id, "finish").json()["status"] == "queued"
        assert worker.claim().claimed["is_finishing"]

    def test_a_failed_job_can_still_be_exported(self, submit, worker, steer):
        job_id = submit(retry={"failures": 0})["id"]
        attempt = worker.claim()
        attempt.checkpoint(10, is_best=True)
        attempt.fail()
        assert steer(job_id, "finish").json()["status"] == "queued"

    def test_a_lost_worker_does_not_lose_the_wish(self, trained, worker, steer, expire, services):
        job_id, attempt = trained
        steer(job_id, "finish")
        expire(attempt)
        reap_expired(services)
        assert worker.claim().claimed["is_finishing"]

    def test_a_retry_trains_further_again(self, trained, worker, steer):
        job_id, attempt = trained
        steer(job_id, "finish")
        steer(job_id, "cancel")
        attempt.finish("cancelled")
        steer(job_id, "retry")
        assert not worker.claim().claimed["is_finishing"]

    def test_a_job_without_a_trained_step_is_refused(self, submit, worker, steer):
        job_id = submit()["id"]
        assert steer(job_id, "finish").json()["code"] == "no_checkpoint"
        worker.claim()
        response = steer(job_id, "finish")
        assert (response.status_code, response.json()["code"]) == (409, "no_checkpoint")

    def test_a_job_that_has_succeeded_is_refused(self, trained, steer):
        job_id, attempt = trained
        attempt.succeed()
        assert steer(job_id, "finish").json()["code"] == "job_succeeded"

    def test_asking_twice_changes_nothing(self, trained, steer, kinds):
        job_id, _ = trained
        assert [steer(job_id, "finish").status_code for _ in range(2)] == [202, 202]
        assert kinds(job_id).count("finishing") == 1


class TestPriority:
    def test_a_higher_priority_is_claimed_first(self, submit, worker, steer):
        first, second = submit()["id"], submit()["id"]
        response = steer(second, "priority", priority=5)
        assert (response.json()["priority"], response.json()["queue_position"]) == (5, 1)
        assert worker.claim().job_id == second
        assert worker.claim().job_id == first

    def test_a_change_of_a_job_that_stops_is_done_at_once(self, submit, worker, steer):
        job_id = submit()["id"]
        worker.claim()
        steer(job_id, "cancel")
        answer = steer(job_id, "priority", priority=-3)
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelling")

    def test_a_wrong_priority_is_refused(self, submit, steer):
        assert steer(submit()["id"], "priority", priority=101).status_code == 422

    def test_a_job_that_has_ended_has_no_priority(self, submit, worker, steer):
        job_id = submit()["id"]
        worker.claim().succeed()
        assert steer(job_id, "priority", priority=1).json()["code"] == "job_succeeded"


class TestKeeping:
    def test_checkpoints_of_a_job_that_ended_without_success_are_kept_for_a_while(
        self, submit, worker, services, checkpoints
    ):
        job_id = submit(retry={"failures": 0})["id"]
        attempt = worker.claim()
        attempt.checkpoint(10)
        attempt.fail()
        assert forget_old_checkpoints(services) == 0
        assert [item["step"] for item in checkpoints(job_id)] == [10]
        services.settings.keep_checkpoints_hours = 0
        assert forget_old_checkpoints(services) == 1
        assert checkpoints(job_id) == []

    def test_checkpoints_of_a_paused_job_are_kept(
        self, submit, worker, steer, services, checkpoints
    ):
        job_id = submit()["id"]
        attempt = worker.claim()
        attempt.checkpoint(10)
        steer(job_id, "pause")
        attempt.finish("paused")
        services.settings.keep_checkpoints_hours = 0
        assert forget_old_checkpoints(services) == 0
        assert [item["step"] for item in checkpoints(job_id)] == [10]

    def test_deleting_a_job_deletes_its_checkpoints(self, client, submit, worker, services):
        job_id = submit(retry={"failures": 0})["id"]
        attempt = worker.claim()
        attempt.checkpoint(10, data=b"state")
        sha256 = attempt.upload(b"state")
        attempt.fail()
        assert client.delete(f"/v1/jobs/{job_id}").status_code == 204
        collect_blobs(services)
        assert services.storage.stat(sha256) is None
