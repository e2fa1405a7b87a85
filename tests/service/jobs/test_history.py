import json
import threading
import time

import httpx
import pytest

from redkiln.tls import tls_for

SSE = {"Accept": "text/event-stream"}


def frames(lines):
    """Server-sent events as (kind, id, data); comments as ("comment", None, text)."""
    frame = {}
    for line in lines:
        if line.startswith(":"):
            yield "comment", None, line[1:].strip()
        elif line:
            name, _, value = line.partition(": ")
            frame[name] = value
        elif frame:
            yield frame["event"], frame.get("id"), json.loads(frame["data"])
            frame = {}


def read_stream(client, job_id, **headers):
    with client.stream("GET", f"/v1/jobs/{job_id}/events", headers={**SSE, **headers}) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        return list(frames(response.iter_lines()))


def test_events_are_paged(client, submit, worker):
    job_id = submit()["id"]
    worker.claim().report(*[("message", {"text": str(number)}) for number in range(8)])
    first = client.get(f"/v1/jobs/{job_id}/events?limit=4").json()
    assert [event["seq"] for event in first["data"]] == [1, 2, 3, 4]
    assert first["has_more"] is True
    rest = client.get(f"/v1/jobs/{job_id}/events?after_seq={first['last_id']}").json()
    assert [event["seq"] for event in rest["data"]] == [5, 6, 7, 8, 9, 10]
    assert rest["has_more"] is False
    assert rest["data"][-1]["data"] == {"text": "7"}


def test_a_finished_jobs_stream_sends_all_events_and_ends(client, submit, worker):
    job_id = submit()["id"]
    attempt = worker.claim()
    attempt.report(("phase", {"phase": "training"}))
    attempt.succeed()
    stream = read_stream(client, job_id)
    kept = [(kind, int(id_)) for kind, id_, _ in stream if id_ is not None]
    assert kept == [("submitted", 1), ("started", 2), ("phase", 3), ("succeeded", 4)]
    assert stream[-1][0] == "end"
    assert stream[-1][2]["status"] == "succeeded"


@pytest.mark.parametrize("resume", [{"Last-Event-ID": "3"}, {}])
def test_a_stream_resumes_after_the_last_seen_event(client, submit, worker, resume):
    job_id = submit()["id"]
    worker.claim().succeed()
    ids = [id_ for _, id_, _ in read_stream(client, job_id, **resume) if id_ is not None]
    assert ids == ([] if resume else ["1", "2", "3"])


def test_a_stream_follows_a_job_to_its_end(client, submit, worker):
    job_id = submit()["id"]
    stream = []
    reader = threading.Thread(target=lambda: stream.extend(read_stream(client, job_id)))
    reader.start()
    attempt = worker.claim()
    for step in range(1, 4):
        attempt.report(("progress", {"step": step, "steps": 3}), ("message", {"text": str(step)}))
    attempt.succeed()
    reader.join(timeout=60)
    assert not reader.is_alive()
    kept = [int(id_) for _, id_, _ in stream if id_ is not None]
    assert kept == list(range(1, len(kept) + 1))
    progress = [data["progress"] for kind, _, data in stream if kind == "progress"]
    assert progress[-1]["step"] == 3
    assert stream[-1][0] == "end"


def test_a_quiet_stream_is_kept_alive(client, submit, services):
    services.settings.heartbeat_seconds = 0.05
    job_id = submit()["id"]
    with client.stream("GET", f"/v1/jobs/{job_id}/events", headers=SSE) as response:
        kinds = []
        for kind, _, _ in frames(response.iter_lines()):
            kinds.append(kind)
            if kind == "comment":
                break
    assert kinds == ["submitted", "progress", "comment"]


def test_a_stopping_service_ends_its_streams_at_once(app, serve):
    url, stop = serve(app)
    with httpx.Client(base_url=url, verify=tls_for(url)) as client:
        job_id = client.post("/v1/jobs", json={"dataset": "builtin:digits"}).json()["id"]
        with client.stream("GET", f"/v1/jobs/{job_id}/events", headers=SSE) as response:
            lines = response.iter_lines()
            assert next(lines) == "id: 1"
            started = time.monotonic()
            threading.Thread(target=stop).start()
            assert "event: end" not in list(lines)
            assert time.monotonic() - started < 2


def test_the_newest_attempts_log_is_shown_from_any_offset(client, submit, worker):
    job_id = submit()["id"]
    assert client.get(f"/v1/jobs/{job_id}/logs").text == ""
    first = worker.claim()
    first.report(log=(0, b"one\ntwo\n"))
    assert first.report(log=(4, b"two\nthree\n")).json()["log_size"] == 14
    first.finish("released")
    worker.claim().report(log=(0, b"again\n"))
    logs = f"/v1/jobs/{job_id}/logs"
    response = client.get(logs)
    assert response.text == "again\n"
    assert response.headers["Redkiln-Log-Size"] == "6"
    assert client.get(f"{logs}?attempt=1").text == "one\ntwo\nthree\n"
    assert client.get(f"{logs}?attempt={first.id}&offset=8").text == "three\n"
    assert client.get(f"{logs}?attempt=1&tail=1").text == "three\n"
    assert client.get(f"{logs}?attempt=1&offset=99").text == ""
    assert client.get(f"{logs}?attempt=3").status_code == 404
    assert client.get(f"{logs}?attempt=x").status_code == 422


def test_a_log_stops_at_its_quota(client, submit, worker, services):
    services.settings.log_quota_bytes = 10
    job_id = submit()["id"]
    attempt = worker.claim()
    assert attempt.report(log=(0, b"12345678")).json()["log_full"] is False
    answer = attempt.report(log=(8, b"9abcdef"), dropped_log_bytes=5).json()
    assert (answer["log_size"], answer["log_full"]) == (10, True)
    assert client.get(f"/v1/jobs/{job_id}/logs").text == "123456789a"
    assert client.get(f"/v1/jobs/{job_id}").json()["attempts"][0]["lost_log_bytes"] == 5


def test_a_log_is_followed_through_the_jobs_attempts(client, submit, worker):
    job_id = submit()["id"]
    text = []

    def follow():
        with client.stream("GET", f"/v1/jobs/{job_id}/logs?follow=true") as response:
            text.append("".join(response.iter_text()))

    reader = threading.Thread(target=follow)
    reader.start()
    first = worker.claim()
    first.report(log=(0, b"first\n"))
    first.report(log=(6, b"more\n"))
    first.finish("released")
    second = worker.claim()
    second.report(log=(0, b"second\n"))
    second.succeed()
    reader.join(timeout=60)
    assert text == ["first\nmore\nsecond\n"]


def test_a_series_is_one_curve_over_the_attempts(client, submit, worker):
    job_id = submit()["id"]
    first = worker.claim()
    first.report(("metrics", {"points": {"loss": [[step, 1.0] for step in range(1, 9)]}}))
    first.checkpoint(5)
    first.finish("released")
    second = worker.claim()
    points = [[step, 2.0] for step in range(6, 11)]
    second.report(("metrics", {"points": {"loss": points, "lr": [[6, None]]}}))
    metrics = f"/v1/jobs/{job_id}/metrics"
    loss, lr = client.get(metrics).json()["series"]
    assert loss["steps"] == list(range(1, 11))
    assert loss["values"] == [1.0] * 5 + [2.0] * 5
    assert loss["downsampled"] is False
    assert (lr["name"], lr["values"]) == ("lr", [None])
    assert [s["name"] for s in client.get(f"{metrics}?names=lr").json()["series"]] == ["lr"]
    assert len(client.get(f"{metrics}?names=lr,loss").json()["series"]) == 2
    later = client.get(f"{metrics}?names=loss&after_step=8").json()["series"][0]
    assert later["steps"] == [9, 10]
    thinned = client.get(f"{metrics}?names=loss&max_points=4").json()["series"][0]
    assert len(thinned["steps"]) <= 4
    assert thinned["num_points"] == 10
    assert thinned["downsampled"] is True
    assert client.get(f"{metrics}?max_points=1").status_code == 422
    assert client.get(f"{metrics}?after_step={10**30}").status_code == 422


def test_repeated_points_are_not_sent_to_a_client_that_has_seen_the_originals(
    client, submit, worker
):
    job_id = submit()["id"]
    first = worker.claim()
    first.report(("metrics", {"points": {"loss": [[step, 1.0] for step in range(1, 11)]}}))
    first.checkpoint(3)
    first.finish("released")
    second = worker.claim()
    second.report(("metrics", {"points": {"loss": [[4, 2.0], [5, 2.0]]}}))
    metrics = f"/v1/jobs/{job_id}/metrics?names=loss"
    (loss,) = client.get(metrics).json()["series"]
    assert loss["steps"] == [1, 2, 3, 4, 5]
    for after_step in (3, 4, 5):
        told = client.get(f"{metrics}&after_step={after_step}").json()["series"]
        assert [step for series in told for step in series["steps"]] == list(
            range(after_step + 1, 6)
        )
