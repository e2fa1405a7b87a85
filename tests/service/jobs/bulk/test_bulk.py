"""Cancelling and deleting all jobs that a filter selects."""

import pytest

from service.errors import DatabaseBusy
from service.jobs.bulk import rules

REQUESTS = [("POST", "/v1/jobs/cancel"), ("DELETE", "/v1/jobs")]


def ids(items):
    return [item["id"] for item in items]


@pytest.fixture
def ask(client):
    def ask(method, path, **filters):
        response = client.request(method, path, params=filters)
        assert response.status_code == 200, response.text
        return response.json()

    return ask


@pytest.mark.parametrize(("method", "path"), REQUESTS)
def test_a_change_of_all_jobs_needs_a_filter(client, submit, job, method, path):
    kept = submit()["id"]
    for query in ("", "?q=", "?limit=5"):
        refused = client.request(method, path + query)
        assert (refused.status_code, refused.json()["code"]) == (422, "no_filter")
    assert client.request(method, f"{path}?state=queued").json()["code"] == "unknown_parameter"
    for query in ("metadata.=1", "metadata.a=1&metadata.a=2", "q=a+b+c+d+e+f+g+h+i"):
        assert client.request(method, f"{path}?{query}").status_code == 422
    assert job(kept)["status"] == "queued"


def test_cancelling_by_metadata_stops_the_jobs_that_have_not_ended(
    submit, worker, client, ask, job
):
    team = {"metadata": {"team": "blue"}}
    running = submit(**team)["id"]
    attempt = worker.claim()
    queued, other = submit(**team)["id"], submit()["id"]
    ended = submit(**team)["id"]
    client.post(f"/v1/jobs/{ended}/cancel")

    chosen = {"metadata.team": "blue"}
    preview = ask("POST", "/v1/jobs/cancel", dry_run=True, **chosen)
    assert (preview["dry_run"], ids(preview["done"])) == (True, [queued, running])
    assert [job(one)["status"] for one in (queued, running)] == ["queued", "running"]
    assert attempt.report().json()["command"] == "continue"

    answer = ask("POST", "/v1/jobs/cancel", **chosen)
    assert [one["status"] for one in answer["done"]] == ["cancelled", "cancelling"]
    assert (answer["refused"], answer["has_more"]) == ([], False)
    assert attempt.report().json()["command"] == "cancel"
    assert job(other)["status"] == "queued"


def test_jobs_that_cannot_be_cancelled_are_listed_with_the_reason(submit, worker, ask):
    done = submit()["id"]
    worker.claim().succeed()
    (refused,) = ask("POST", "/v1/jobs/cancel", status="succeeded")["refused"]
    assert (refused["id"], refused["code"]) == (done, "job_succeeded")
    assert refused["message"] == "the job has already succeeded, so it cannot be cancelled"


def test_deleting_removes_ended_jobs_and_refuses_those_that_a_version_needs(
    submit, worker, client, ask, services
):
    registered = submit()["id"]
    first = worker.claim()
    first.finish("succeeded", artifacts=[first.artifact("model", "model.onnx", b"onnx")])
    version = {"name": "flowers", "job": registered}
    assert client.post("/v1/models", json=version).status_code == 201
    gone = submit()["id"]
    attempt = worker.claim()
    attempt.report(log=(0, b"hello\n"))
    attempt.succeed()
    queued = submit()["id"]

    preview = ask("DELETE", "/v1/jobs", q="digits", dry_run=True)
    answer = ask("DELETE", "/v1/jobs", q="digits")
    assert ids(preview["done"]) == ids(answer["done"]) == [gone]
    assert [one["code"] for one in answer["refused"]] == ["job_registered"]
    assert not (services.settings.logs_dir / f"{attempt.id}.log").exists()
    assert ids(client.get("/v1/jobs").json()["data"]) == [queued, registered]


def test_a_long_selection_is_changed_in_parts(submit, ask):
    made = [submit()["id"] for _ in range(3)]
    first = ask("POST", "/v1/jobs/cancel", status="queued", limit=2)
    assert (ids(first["done"]), first["has_more"]) == ([made[2], made[1]], True)
    rest = ask("POST", "/v1/jobs/cancel", status="queued", limit=2, after=first["last_id"])
    assert (ids(rest["done"]), rest["has_more"]) == ([made[0]], False)


def test_a_busy_database_in_the_middle_reports_what_was_done(submit, client, ask, monkeypatch):
    first, second, third = (submit()["id"] for _ in range(3))
    cancel = rules.steering.cancel
    busy = [second]

    def cancel_unless_busy(session, job_id, **options):
        if job_id in busy:
            raise DatabaseBusy("the database is busy; try again")
        return cancel(session, job_id, **options)

    monkeypatch.setattr(rules.steering, "cancel", cancel_unless_busy)
    answer = ask("POST", "/v1/jobs/cancel", status="queued")
    assert (ids(answer["done"]), answer["has_more"]) == ([third], True)
    rest = {"status": "queued", "after": answer["last_id"]}
    refused = client.post("/v1/jobs/cancel", params=rest)
    assert (refused.status_code, int(refused.headers["Retry-After"]) > 0) == (503, True)
    busy.clear()
    assert ids(ask("POST", "/v1/jobs/cancel", **rest)["done"]) == [second, first]
