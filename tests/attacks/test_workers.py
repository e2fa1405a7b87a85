"""A worker that lies, or whose key was revoked."""

import time

import pytest

from service.keys.rules import revoke_key
from service.metrics.chunks import MAX_SERIES

FAR = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00")


@pytest.fixture
def attempt(worker, submit):
    submit()
    return worker.claim()


def metrics(points):
    return "metrics", {"points": points}


def test_an_attempt_ends_with_the_key_that_claimed_it(attempt, worker_key, services, job):
    key_id = worker_key.split("_")[1]
    assert attempt.report().status_code == 200
    services.database.write(lambda session: revoke_key(session, f"key_{key_id}"))
    for answer in (attempt.report(), attempt.finish("succeeded")):
        assert (answer.status_code, answer.json()["code"]) == (401, "bad_key")
    answer = attempt.client.put(
        f"/v1/attempts/{attempt.id}/blobs/{'0' * 64}", content=b"x", headers=attempt.headers
    )
    assert answer.status_code == 401
    assert job(attempt.job_id)["status"] == "running"


@pytest.mark.parametrize("at", FAR)
def test_a_clock_that_is_far_off_breaks_no_listing(attempt, client, at):
    event = {"at": at, "kind": "message", "data": {"text": "hello"}}
    assert attempt.post("report", first_seq=1, events=[event]).status_code == 200
    answer = client.get(f"/v1/jobs/{attempt.job_id}/events")
    assert answer.json()["data"][-1]["data"]["text"] == "hello"


def test_a_hundred_thousand_series_neither_hold_up_the_service_nor_lose_the_job(
    attempt, client, job
):
    points = {f"metric {number}": [[1, 0.5]] for number in range(100_000)}
    began = time.monotonic()
    assert attempt.report(metrics(points)).status_code == 200
    assert attempt.report(metrics({"metric 3": [[2, 0.5]], "more": [[2, 1.0]]})).status_code == 200
    assert time.monotonic() - began < 20
    (warning,) = job(attempt.job_id)["warnings"]
    assert warning["code"] == "too_many_series"
    shown = client.get(f"/v1/jobs/{attempt.job_id}/metrics").json()
    assert str(MAX_SERIES) in warning["message"]
    assert "more" not in str(shown)


@pytest.mark.parametrize("step", [2**53, 2**63, 2**64, -1, 1.5])
def test_steps_that_no_database_can_count_are_refused_with_their_place(attempt, step):
    answer = attempt.report(metrics({"loss": [[step, 0.5]]}))
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_event")
    assert answer.json()["errors"][0]["pointer"].startswith("/events/0/data/points/loss/0/0")


@pytest.mark.parametrize("number", [2**53, 2**63, 2**64, -1])
@pytest.mark.parametrize("kind", ["checkpoint", "progress"])
def test_a_step_of_any_event_is_bounded(attempt, kind, number):
    answer = attempt.report((kind, {"step": number}))
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_event")
    assert answer.json()["errors"][0]["pointer"] == "/events/0/data/step"


@pytest.mark.parametrize("number", [2**53, 2**64])
def test_numbers_of_a_report_and_a_checkpoint_are_bounded(attempt, number):
    assert attempt.report(dropped_log_bytes=number).status_code == 422
    assert attempt.checkpoint(number).status_code == 422


@pytest.mark.parametrize("slots", [2**31, 2**63, 2**64])
def test_the_slots_of_a_worker_are_bounded(worker, slots):
    assert worker.hello(slots=slots).status_code == 422


@pytest.mark.parametrize("media_type", ["text/€", "text/a\r\nX-Evil: 1", "a/b\n", "x", "a/" * 200])
def test_a_media_type_is_one_that_a_header_can_hold(attempt, media_type):
    data = b"{}"
    answer = attempt.post(
        "artifacts",
        name="a.json",
        kind="file",
        media_type=media_type,
        sha256=attempt.upload(data),
        size_bytes=len(data),
    )
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/media_type"


def test_an_answer_to_a_hundred_thousand_faults_is_short(attempt):
    answer = attempt.post("report", first_seq=1, events=[1] * 10_000)
    assert answer.status_code == 422
    assert len(answer.content) < 20_000


@pytest.mark.parametrize(
    "fields",
    [
        {"arches": ["gfx1100"] * 257},
        {"arches": ["x" * 300]},
        {"devices": ["cpu"] * 257},
        {"claim_id": "x" * 300},
    ],
)
def test_a_claim_has_bounds(worker, fields):
    assert worker.ask(**fields).status_code == 422


def test_a_worker_has_bounds(worker):
    assert worker.hello(arch_list=["gfx1100"] * 257).status_code == 422
