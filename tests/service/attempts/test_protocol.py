from concurrent.futures import ThreadPoolExecutor

import pytest

from service.housekeeping import collect_blobs, reap_expired

CRASHED = {"code": "crashed", "message": "segfault", "retryable": True}


class TestClaim:
    def test_a_claim_tells_all_that_an_attempt_needs(self, submit, worker, job):
        job_id = submit(resources={"max_duration_seconds": 60})["id"]
        claimed = worker.claim().claimed
        assert claimed["job_id"] == job_id
        assert (claimed["number"], claimed["fence"]) == (1, 1)
        assert claimed["dataset"]["name"] == "builtin:digits"
        assert claimed["max_duration_seconds"] == 60
        assert claimed["lease_seconds"] == 90
        view = job(job_id)
        assert view["status"] == "running"
        assert view["started_at"] is not None
        assert view["attempts"][0]["worker_id"] == worker.id

    def test_a_job_that_reads_no_data_set_is_claimed_without_one(self, client, worker):
        worker.hello()
        job_id = client.post("/v1/jobs", json={"task": "benchmark"}).json()["id"]
        attempt = worker.claim()
        assert (attempt.job_id, attempt.claimed["dataset"]) == (job_id, None)
        assert attempt.claimed["spec"]["measure"]["seconds"] == 180
        for path in ("dataset", "dataset/index"):
            url = f"/v1/attempts/{attempt.id}/{path}"
            assert client.get(url, headers=attempt.headers).status_code == 404

    def test_the_best_job_is_given_not_the_one_that_rang(self, submit, worker):
        first = submit()["id"]
        urgent = submit(priority=1)["id"]
        assert worker.claim(hint=first).job_id == urgent
        assert worker.claim().job_id == first
        assert worker.ask().status_code == 204

    def test_the_same_message_twice_starts_one_attempt(self, submit, worker, other_worker, job):
        job_id = submit()["id"]
        worker.claim(hint=job_id)
        assert other_worker.ask(hint=job_id).status_code == 204
        assert len(job(job_id)["attempts"]) == 1

    def test_a_repeated_claim_gets_the_same_attempt(self, submit, worker):
        submit()
        submit()
        first = worker.claim(claim_id="c1").claimed
        assert worker.claim(claim_id="c1").claimed == first
        assert worker.claim(claim_id="c2").claimed["attempt_id"] != first["attempt_id"]

    def test_an_older_process_of_a_worker_gets_nothing(self, submit, worker):
        submit()
        worker.hello(boot_id="boot-2")
        response = worker.ask()
        assert (response.status_code, response.json()["code"]) == (409, "superseded")

    def test_an_unknown_worker_has_to_say_hello(self, submit, worker):
        submit()
        worker.id = "wrk_99999999"
        assert worker.ask().json()["code"] == "superseded"

    def test_a_worker_of_another_release_ends_what_it_has_and_gets_no_more(
        self, submit, worker, other_worker, job
    ):
        begun, queued = submit()["id"], submit()["id"]
        attempt = worker.claim()
        worker.hello(version="0.0.1")
        assert worker.ask().status_code == 204
        assert attempt.report().status_code == 200
        assert job(begun)["status"] == "running"
        assert other_worker.claim().job_id == queued

    def test_a_cpu_takes_a_job_for_any_device_only_where_no_worker_has_a_gpu(
        self, submit, worker, other_worker
    ):
        submit()
        other_worker.gpus = [{"index": 0, "name": "RX 7900", "arch": "gfx1100"}]
        other_worker.hello()
        assert worker.ask().status_code == 204
        assert other_worker.claim()

    def test_a_job_for_another_architecture_is_passed_over(self, submit, worker, other_worker):
        for each, arch in ((worker, "gfx1100"), (other_worker, "gfx942")):
            each.gpus = [{"index": 0, "name": "card", "arch": arch}]
            each.hello()
        picky = submit(resources={"arch": ["gfx942"]}, priority=9)["id"]
        other = submit()["id"]
        assert worker.claim().job_id == other
        assert other_worker.claim().job_id == picky

    def test_claims_at_the_same_time_get_different_jobs(self, client, submit, worker_key, worker):
        jobs = {submit()["id"] for _ in range(12)}
        workers = [type(worker)(client, worker_key, id=f"wrk_1000000{n}") for n in range(4)]

        def claim_three(worker):
            worker.hello()
            return [worker.claim().job_id for _ in range(3)]

        with ThreadPoolExecutor(4) as pool:
            claimed = [job_id for ids in pool.map(claim_three, workers) for job_id in ids]
        assert sorted(claimed) == sorted(jobs)

    def test_a_cancel_racing_a_finish_has_one_winner(self, client, submit, worker, job, kinds):
        for _ in range(5):
            job_id = submit()["id"]
            attempt = worker.claim()
            attempt.upload(b"{}")
            with ThreadPoolExecutor(2) as pool:
                cancelled = pool.submit(client.post, f"/v1/jobs/{job_id}/cancel")
                finished = pool.submit(attempt.succeed)
            status = finished.result().json()["job_status"]
            assert job(job_id)["status"] == status
            assert (cancelled.result().status_code == 409) is (status == "succeeded")
            assert kinds(job_id)[-1] == status


class TestHello:
    def test_another_protocol_version_is_refused(self, worker):
        response = worker.hello(protocol=2)
        assert (response.status_code, response.json()["code"]) == (426, "protocol_mismatch")
        assert response.json()["protocol"] == 1

    def test_a_restarted_worker_gives_its_jobs_up_at_once(self, submit, worker, job, kinds):
        job_id = submit()["id"]
        attempt = worker.claim()
        worker.boot_id = "boot-2"
        worker.hello()
        assert job(job_id)["status"] == "queued"
        assert job(job_id)["reason"]["code"] == "worker_lost"
        assert worker.claim().claimed["number"] == 2
        assert attempt.report().json()["code"] == "superseded"
        assert kinds(job_id) == ["submitted", "started", "requeued", "started"]

    def test_the_same_process_may_say_hello_again(self, submit, worker, job):
        job_id = submit()["id"]
        worker.claim()
        worker.hello()
        assert job(job_id)["status"] == "running"

    def test_workers_are_listed_with_what_they_run(self, client, submit, worker):
        submit()
        attempt = worker.claim()
        view = client.get("/v1/workers").json()["data"][0]
        assert view["is_live"] is True
        assert view["lag_seconds"] < 5
        assert view["attempts"] == [attempt.id]

    def test_a_worker_needs_its_own_kind_of_key(self, worker, settings, client):
        worker.key = (settings.keys_dir / "admin.key").read_text().strip()
        assert worker.hello().status_code == 403
        worker.key = "rk_nothing"
        assert worker.hello().status_code == 401


class TestReport:
    def test_events_become_the_jobs_view_and_history(self, submit, worker, job, kinds):
        job_id = submit()["id"]
        attempt = worker.claim()
        answer = attempt.report(
            ("phase", {"phase": "training"}),
            ("resolved", {"spec": {"batch_size": 8}, "environment": {"torch": "2"}}),
            ("progress", {"step": 5, "steps": 10, "fraction": 0.5, "eta_seconds": 3.0}),
            ("warning", {"code": "slow", "message": "one thread"}),
            ("metrics", {"points": {"train/loss": [[1, 0.5]]}}),
            ("result", {"metrics": {"accuracy": 1.0}}),
        ).json()
        assert (answer["acked_seq"], answer["command"]) == (6, "continue")
        view = job(job_id)
        assert view["phase"] == "training"
        assert view["progress"]["eta_seconds"] == 3.0
        assert view["resolved_spec"] == {"batch_size": 8}
        assert view["environment"] == {"torch": "2"}
        assert view["warnings"] == [{"code": "slow", "message": "one thread"}]
        assert view["attempts"][0]["last_step"] == 5
        assert view["attempts"][0]["details"]["result"] == {"metrics": {"accuracy": 1.0}}
        assert kinds(job_id) == ["submitted", "started", "phase", "resolved", "warning", "result"]

    def test_repeated_and_overlapping_reports_count_once(self, client, submit, worker, kinds):
        job_id = submit()["id"]
        attempt = worker.claim()
        metrics = ("metrics", {"points": {"loss": [[1, 0.5]]}})
        for _ in range(2):
            assert (
                attempt.report(("message", {"text": "a"}), metrics, first_seq=1).json()["acked_seq"]
                == 2
            )
        answer = attempt.report(
            ("message", {"text": "a"}), metrics, ("message", {"text": "b"}), first_seq=1
        )
        assert answer.json()["acked_seq"] == 3
        assert kinds(job_id) == ["submitted", "started", "message", "message"]
        series = client.get(f"/v1/jobs/{job_id}/metrics").json()["series"]
        assert series[0]["num_points"] == 1

    def test_a_gap_is_refused_with_where_to_go_on(self, submit, worker, kinds):
        job_id = submit()["id"]
        attempt = worker.claim()
        attempt.report(("message", {"text": "a"}))
        response = attempt.report(("message", {"text": "c"}), first_seq=3)
        assert response.status_code == 409
        assert response.json()["code"] == "sequence_gap"
        assert response.json()["expected_seq"] == 2
        assert kinds(job_id) == ["submitted", "started", "message"]

    def test_an_unreadable_event_is_refused_and_nothing_of_its_batch_counts(
        self, submit, worker, kinds
    ):
        job_id = submit()["id"]
        response = worker.claim().report(("message", {"text": "a"}), ("phase", {"phase": "nap"}))
        assert response.status_code == 422
        assert response.json()["code"] == "bad_event"
        assert kinds(job_id) == ["submitted", "started"]

    @pytest.mark.parametrize("token", ["", "rt_1_" + "0" * 64, "rk_x"])
    def test_another_token_is_refused(self, submit, worker, token):
        submit()
        attempt = worker.claim()
        attempt.claimed["token"] = token or "x"
        assert attempt.report().status_code == 401

    def test_a_resumed_attempt_repeats_no_warning(self, submit, worker, job):
        job_id = submit()["id"]
        warning = ("warning", {"code": "slow", "message": "one thread"})
        attempt = worker.claim()
        attempt.report(warning)
        attempt.finish("released")
        worker.claim().report(warning)
        assert len(job(job_id)["warnings"]) == 1


class TestFence:
    def test_an_expired_lease_gives_the_job_to_another_worker(
        self, submit, worker, other_worker, expire, services, job
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
        self, client, submit, worker, other_worker, expire, services, job, kinds
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

    def test_a_late_report_revives_a_lease_that_nobody_took(
        self, submit, worker, expire, services, job
    ):
        job_id = submit()["id"]
        attempt = worker.claim()
        expire(attempt)
        assert attempt.report().status_code == 200
        assert reap_expired(services) == 0
        assert job(job_id)["status"] == "running"


class TestFinish:
    def test_a_job_succeeds_with_its_artifacts(self, client, submit, worker, job, kinds):
        job_id = submit()["id"]
        attempt = worker.claim()
        assert attempt.succeed(b'{"a": 1}').json() == {"job_status": "succeeded"}
        view = job(job_id)
        assert (view["status"], view["is_terminal"]) == ("succeeded", True)
        assert view["attempts"][0]["status"] == "succeeded"
        artifact = client.get(f"/v1/jobs/{job_id}/artifacts").json()["data"][0]
        assert client.get(artifact["url"]).content == b'{"a": 1}'
        assert kinds(job_id) == ["submitted", "started", "succeeded"]

    def test_finishing_again_gets_the_same_answer_and_another_finish_is_refused(
        self, submit, worker, kinds
    ):
        job_id = submit()["id"]
        attempt = worker.claim()
        first = attempt.finish("failed", failure={**CRASHED, "retryable": False})
        again = attempt.finish("failed", failure={**CRASHED, "retryable": False})
        assert first.json() == again.json() == {"job_status": "failed"}
        other = attempt.finish("released")
        assert (other.status_code, other.json()["code"]) == (409, "already_finished")
        assert kinds(job_id) == ["submitted", "started", "failed"]

    def test_success_without_artifacts_is_refused(self, submit, worker, job):
        job_id = submit()["id"]
        response = worker.claim().finish("succeeded")
        assert (response.status_code, response.json()["code"]) == (422, "no_artifacts")
        assert job(job_id)["status"] == "running"

    def test_success_with_bytes_that_are_not_stored_is_refused(self, submit, worker, job):
        job_id = submit()["id"]
        artifact = {"name": "model.onnx", "kind": "model", "media_type": "application/onnx",
                    "sha256": "0" * 64, "size_bytes": 1}  # fmt: skip
        response = worker.claim().finish("succeeded", artifacts=[artifact])
        assert response.status_code == 422
        assert response.json()["errors"][0]["pointer"] == "/artifacts/0/sha256"
        assert job(job_id)["status"] == "running"

    def test_an_attempt_cannot_finish_before_all_its_events_are_there(self, submit, worker):
        submit()
        attempt = worker.claim()
        response = attempt.finish("released", last_seq=3)
        assert response.json()["expected_seq"] == 1

    def test_failures_are_retried_within_their_budget(self, submit, worker, job, kinds):
        job_id = submit(retry={"failures": 1})["id"]
        assert worker.claim().fail().json() == {"job_status": "queued"}
        assert worker.claim().fail().json() == {"job_status": "failed"}
        assert job(job_id)["reason"]["code"] == "crashed"
        assert kinds(job_id) == ["submitted", "started", "requeued", "started", "failed"]

    def test_what_no_retry_can_help_fails_at_once(self, submit, worker):
        submit()
        assert worker.claim().fail("bad_input", retryable=False).json() == {"job_status": "failed"}

    def test_a_failed_job_keeps_the_files_that_its_worker_sent(self, client, submit, worker):
        job_id = submit()["id"]
        attempt = worker.claim()
        artifact = {"name": "checkpoint.safetensors", "kind": "checkpoint", "size_bytes": 4,
                    "media_type": "application/octet-stream",
                    "sha256": attempt.upload(b"kept")}  # fmt: skip
        failure = {"code": "unverified", "message": "off by 1", "retryable": False}
        attempt.finish("failed", failure=failure, artifacts=[artifact])
        listed = client.get(f"/v1/jobs/{job_id}/artifacts").json()["data"]
        assert [item["name"] for item in listed] == ["checkpoint.safetensors"]

    def test_giving_a_job_back_costs_nothing(self, submit, worker, job):
        job_id = submit(retry={"failures": 0, "lost_workers": 0})["id"]
        for _ in range(5):
            assert worker.claim().finish("released").json() == {"job_status": "queued"}
        assert job(job_id)["attempts"][-1]["status"] == "released"

    def test_a_job_whose_gpu_is_in_use_waits_with_its_workers_words(self, submit, worker, job):
        job_id = submit(retry={"failures": 0})["id"]
        failure = {"code": "gpu_busy", "message": "20 GiB are in use", "retryable": True}
        worker.claim().finish("released", failure=failure)
        assert job(job_id)["status"] == "queued"
        assert job(job_id)["reason"]["message"] == "20 GiB are in use"

    def test_a_job_that_kills_its_workers_is_quarantined(
        self, submit, worker, expire, services, job
    ):
        job_id = submit()["id"]
        for _ in range(3):
            attempt = worker.claim()
            attempt.report(("progress", {"step": 7, "steps": 10}))
            expire(attempt)
            reap_expired(services)
        assert job(job_id)["status"] == "failed"
        assert job(job_id)["reason"]["code"] == "quarantined"

    @pytest.mark.parametrize("outcome", ["cancelled", "released", "failed", "succeeded", "lost"])
    def test_a_cancel_that_came_first_wins_over_every_end(
        self, client, submit, worker, expire, services, job, outcome, kinds
    ):
        job_id = submit()["id"]
        attempt = worker.claim()
        client.post(f"/v1/jobs/{job_id}/cancel")
        if outcome == "lost":
            expire(attempt)
            reap_expired(services)
        elif outcome == "succeeded":
            assert attempt.succeed().json() == {"job_status": "cancelled"}
        else:
            assert attempt.finish(outcome).json() == {"job_status": "cancelled"}
        assert job(job_id)["status"] == "cancelled"
        assert client.get(f"/v1/jobs/{job_id}/artifacts").json()["data"] == []
        assert kinds(job_id)[-2:] == ["cancelling", "cancelled"]


class TestCheckpoints:
    def test_the_next_attempt_resumes_from_the_newest_and_knows_the_best(
        self, submit, worker, other_worker, expire, services, job
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

    def test_a_checkpoint_is_fetched_with_the_attempts_token(self, client, submit, worker):
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

    def test_committing_again_changes_nothing(self, submit, worker, kinds):
        job_id = submit()["id"]
        attempt = worker.claim()
        assert attempt.checkpoint(10).json() == attempt.checkpoint(10).json()
        assert kinds(job_id).count("committed") == 1

    def test_a_checkpoint_that_is_not_stored_is_refused(self, submit, worker):
        submit()
        response = worker.claim().post(
            "checkpoints", step=1, sha256="0" * 64, size_bytes=5, manifest={}
        )
        assert (response.status_code, response.json()["code"]) == (422, "blob_missing")

    def test_dropped_checkpoints_leave_the_storage_and_kept_ones_stay(
        self, submit, worker, services
    ):
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

    def test_an_ended_job_keeps_no_checkpoint(self, submit, worker, services):
        submit()
        attempt = worker.claim()
        attempt.checkpoint(10, data=b"state")
        sha256 = attempt.upload(b"state")
        attempt.succeed()
        collect_blobs(services)
        assert services.storage.stat(sha256) is None


class TestBlobs:
    def test_bytes_with_another_digest_are_refused_and_not_kept(
        self, client, submit, worker, services
    ):
        submit()
        attempt = worker.claim()
        path = f"/v1/attempts/{attempt.id}/blobs/{'0' * 64}"
        response = client.put(path, content=b"flipped", headers=attempt.headers)
        assert (response.status_code, response.json()["code"]) == (422, "digest_mismatch")
        assert client.head(path, headers=attempt.headers).status_code == 404

    def test_stored_bytes_need_not_be_sent_again(self, client, submit, worker):
        submit()
        attempt = worker.claim()
        sha256 = attempt.upload(b"known")
        path = f"/v1/attempts/{attempt.id}/blobs/{sha256}"
        assert client.head(path, headers=attempt.headers).status_code == 200

    def test_what_an_attempt_uploaded_and_never_used_goes_with_it(self, submit, worker, services):
        submit()
        attempt = worker.claim()
        sha256 = attempt.upload(b"unused")
        collect_blobs(services)
        assert services.storage.stat(sha256) is not None
        attempt.fail()
        collect_blobs(services)
        assert services.storage.stat(sha256) is None
