"""Events of an attempt become the view and the history of its job, once each."""

import pytest


def test_events_become_the_jobs_view_and_history(submit, worker, job, kinds):
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


def test_repeated_and_overlapping_reports_count_once(client, submit, worker, kinds):
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


def test_a_gap_is_refused_with_the_expected_event(submit, worker, kinds):
    job_id = submit()["id"]
    attempt = worker.claim()
    attempt.report(("message", {"text": "a"}))
    response = attempt.report(("message", {"text": "c"}), first_seq=3)
    assert response.status_code == 409
    assert response.json()["code"] == "sequence_gap"
    assert response.json()["expected_seq"] == 2
    assert kinds(job_id) == ["submitted", "started", "message"]


def test_an_invalid_event_refuses_its_whole_batch(submit, worker, kinds):
    job_id = submit()["id"]
    response = worker.claim().report(("message", {"text": "a"}), ("phase", {"phase": "nap"}))
    assert response.status_code == 422
    assert response.json()["code"] == "bad_event"
    assert kinds(job_id) == ["submitted", "started"]


@pytest.mark.parametrize("token", ["", "rt_1_" + "0" * 64, "rk_x"])
def test_another_token_is_refused(submit, worker, token):
    submit()
    attempt = worker.claim()
    attempt.claimed["token"] = token or "x"
    assert attempt.report().status_code == 401


def test_a_resumed_attempt_repeats_no_warning(submit, worker, job):
    job_id = submit()["id"]
    warning = ("warning", {"code": "slow", "message": "one thread"})
    attempt = worker.claim()
    attempt.report(warning)
    attempt.finish("released")
    worker.claim().report(warning)
    assert len(job(job_id)["warnings"]) == 1


def test_a_worker_with_nothing_to_report_gets_a_command_within_two_seconds(client, submit, worker):
    job_id = submit()["id"]
    attempt = worker.claim()
    assert attempt.claimed["report_seconds"] <= 2
    client.post(f"/v1/jobs/{job_id}/pause")
    answer = attempt.report().json()
    assert answer["command"] == "pause"
    assert answer["report_seconds"] <= 2
    assert answer["lease_seconds"] > 10 * answer["report_seconds"]


def test_an_event_may_hold_any_keys(submit, worker, client):
    job_id = submit()["id"]
    keys = ("at", "job", "kind", "session", "attempt_id", "data", "self", "seq")
    data = {"text": "said", **dict.fromkeys(keys, "x")}
    assert worker.claim().report(("message", data)).status_code == 200
    events = client.get(f"/v1/jobs/{job_id}/events").json()["data"]
    assert [event["data"] for event in events if event["kind"] == "message"] == [data]
