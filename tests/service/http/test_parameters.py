import pytest

JOB = "job_" + "0" * 22


@pytest.mark.parametrize(
    ("path", "name", "words"),
    [
        (
            "/v1/jobs?foo=1",
            "foo",
            "known: project, status, task, dataset, q, sort, after, limit, metadata.<key>",
        ),
        ("/v1/jobs?state=queued", "state", "did you mean 'status'?"),
        ("/v1/jobs?limit=2&metdata.team=a", "metdata.team", "did you mean"),
        (f"/v1/jobs/{JOB}?limit=2", "limit", "known: wait"),
        (f"/v1/jobs/{JOB}/events?after=2", "after", "did you mean 'after_seq'?"),
        (f"/v1/jobs/{JOB}/artifacts?limit=2", "limit", "this endpoint has no query parameters"),
        ("/v1/datasets?names=a", "names", "did you mean 'name'?"),
        ("/v1/keys?limt=2", "limt", "did you mean 'limit'?"),
        ("/v1/workers?status=idle", "status", "this endpoint has no query parameters"),
        ("/v1/tasks?name=a", "name", "this endpoint has no query parameters"),
    ],
)
def test_an_unknown_parameter_is_refused_with_the_nearest_known_one(client, path, name, words):
    response = client.get(path)
    assert response.status_code == 422
    assert response.headers["Content-Type"] == "application/problem+json"
    problem = response.json()
    assert problem["code"] == "unknown_parameter"
    (error,) = problem["errors"]
    assert (error["code"], error["parameter"]) == ("unknown_parameter", name)
    assert words in error["message"]


def test_a_misspelt_dry_run_submits_nothing(client):
    response = client.post("/v1/jobs?dryrun=true", json={"dataset": "builtin:digits"})
    assert response.status_code == 422
    assert "did you mean 'dry_run'?" in response.json()["detail"]
    assert client.get("/v1/jobs").json()["data"] == []


def test_every_unknown_parameter_is_reported_once(client):
    errors = client.get("/v1/jobs?a=1&b=2&a=3").json()["errors"]
    assert [error["parameter"] for error in errors] == ["a", "b"]
