import threading

import pytest
import sqlalchemy as sa
from sqlmodel import Session

from service.registry.models import RegistryAlias, RegistryModel

MODEL, SMALL = b"onnx" * 1000, b"int8" * 10


@pytest.fixture
def finished(client, worker, submit):
    """Finishes a job with two model files; returns its id."""

    def finished(status="succeeded"):
        job_id = submit()["id"]
        attempt = worker.claim()
        commits = [
            {
                "kind": kind,
                "name": name,
                "media_type": "application/octet-stream",
                "sha256": attempt.upload(data),
                "size_bytes": len(data),
                "verified": verified,
            }
            for kind, name, data, verified in [
                ("model", "model.onnx", MODEL, True),
                ("model", "model-int8-static.onnx", SMALL, False),
                ("manifest", "manifest.json", b"{}", None),
            ]
        ]
        assert attempt.finish(status, artifacts=commits).status_code == 200
        return job_id

    return finished


@pytest.fixture
def register(client):
    def register(job, name="digits", status=201, **fields):
        answer = client.post("/v1/models", json={"name": name, "job": job, **fields})
        assert answer.status_code == status, answer.text
        return answer.json()

    return register


def test_versions_count_up_and_are_never_used_twice(client, finished, register):
    job = finished()
    assert [register(job)["version"] for _ in range(3)] == [1, 2, 3]
    assert client.delete("/v1/models/digits/versions/3").status_code == 204
    assert register(job)["version"] == 4
    listed = client.get("/v1/models/digits/versions").json()["data"]
    assert [one["version"] for one in listed] == [4, 2, 1]
    assert client.get("/v1/models/digits").json()["newest_version"] == 4
    assert client.get("/v1/models/digits@latest").json()["version"] == 4


def test_a_deleted_model_does_not_come_back_with_an_old_number(client, finished, register):
    job = finished()
    first = register(job, aliases=["production"])
    assert client.delete("/v1/models/digits").status_code == 204
    assert client.get("/v1/models/digits").status_code == 404
    assert client.get("/v1/models").json()["data"] == []
    assert client.delete("/v1/models/digits").status_code == 404
    assert (register(job)["version"], first["version"]) == (2, 1)
    assert client.get("/v1/models/digits/versions/1").status_code == 404
    assert client.get("/v1/models/digits").json()["aliases"] == {}


def test_a_version_knows_its_job_its_spec_and_its_data(client, finished, register, job):
    job_id = finished()
    version = register(job_id, description="the first")
    lineage = version["lineage"]
    assert (lineage["job_id"], lineage["task"]) == (job_id, "image-classification")
    assert lineage["dataset_fingerprint"] == lineage["dataset_name"] == "builtin:digits"
    assert lineage["spec"]["dataset"] == "builtin:digits"
    assert lineage["spec"] == job(job_id)["spec"]
    assert (version["verified"], version["description"]) == (True, "the first")
    path = f"/v1/models/digits/versions/{version['version']}"
    assert client.get(path).json() == version


def test_an_alias_moves_and_its_content_with_it(client, finished, register):
    job = finished()
    first = register(job, aliases=["production"])
    assert first["aliases"] == ["production"]
    register(job, file="model-int8-static.onnx")
    before = client.get("/v1/models/digits@production/content")
    assert (before.content, before.headers["redkiln-version"]) == (MODEL, "1")
    assert before.headers["cache-control"] == "private, no-cache"
    moved = client.put("/v1/models/digits/aliases/production", json={"version": 2})
    assert (moved.status_code, moved.json()["aliases"]) == (200, ["production"])
    etag = before.headers["etag"]
    after = client.get("/v1/models/digits@production/content", headers={"If-None-Match": etag})
    assert (after.status_code, after.content, after.headers["redkiln-version"]) == (200, SMALL, "2")
    assert client.get("/v1/models/digits/versions/1/content").content == MODEL
    assert client.get("/v1/models").json()["data"][0]["aliases"] == {"production": 2}


def test_a_reader_never_finds_an_alias_missing_while_it_moves(client, finished, register):
    job = finished()
    register(job, aliases=["production"])
    register(job)
    seen, done = set(), threading.Event()

    def read():
        while not done.is_set():
            answer = client.get("/v1/models/digits@production")
            seen.add((answer.status_code, answer.json().get("version")))

    reader = threading.Thread(target=read)
    reader.start()
    for move in range(20):
        client.put("/v1/models/digits/aliases/production", json={"version": 1 + move % 2})
    done.set()
    reader.join()
    assert seen <= {(200, 1), (200, 2)}
    assert seen


def test_a_job_that_a_version_needs_cannot_be_deleted(client, finished, register):
    job = finished()
    register(job)
    refused = client.delete(f"/v1/jobs/{job}")
    assert (refused.status_code, refused.json()["code"]) == (409, "job_registered")
    assert "version 1 of digits" in refused.json()["detail"]
    assert "redkiln models delete digits 1" in refused.json()["detail"]
    assert client.delete("/v1/models/digits/versions/1").status_code == 204
    assert client.delete(f"/v1/jobs/{job}").status_code == 204


def test_a_version_with_an_alias_is_deleted_only_with_its_model(client, finished, register):
    register(finished(), aliases=["production"])
    refused = client.delete("/v1/models/digits/versions/1")
    assert (refused.status_code, refused.json()["code"]) == (409, "version_has_alias")
    assert client.delete("/v1/models/digits/aliases/production").status_code == 204
    assert client.get("/v1/models/digits@production").status_code == 404
    assert client.delete("/v1/models/digits").status_code == 204
    assert client.get("/v1/models").json()["data"] == []


def test_what_cannot_be_registered_is_refused_with_its_reason(client, submit, finished, register):
    waiting = submit()["id"]
    assert "the job is queued" in register(waiting, status=409)["detail"]
    assert client.delete(f"/v1/jobs/{waiting}").status_code == 409
    client.post(f"/v1/jobs/{waiting}/cancel")
    job = finished()
    no_file = register(job, file="manifest.json", status=422)
    assert no_file["errors"][0]["pointer"] == "/file"
    assert "model.onnx, model-int8-static.onnx" in no_file["detail"]
    for alias in ("latest", "v7", "7up", "a b", "prod\n"):
        wrong = register(job, aliases=["fine", alias], status=422)
        assert wrong["errors"][0]["pointer"] == "/aliases/1"
    assert register(job, name="a@b", status=422)["errors"][0]["pointer"] == "/name"
    assert register("job_nope", status=404)["code"] == "not_found"
    assert client.get("/v1/models").json()["data"] == []
    assert client.put("/v1/models/digits/aliases/a", json={"version": 1}).status_code == 404


def test_a_digest_is_not_a_name(client):
    answer = client.get(f"/v1/models/{'a' * 64}")
    assert (answer.status_code, "bundle" in answer.json()["detail"]) == (404, True)


def test_a_digest_cannot_be_registered(finished, register):
    refused = register(finished(), name="a" * 64, status=422)
    assert refused["errors"][0]["pointer"] == "/name"
    assert "choose another name" in refused["detail"]


def test_a_version_beyond_the_database_is_refused(client, finished, register):
    register(finished())
    path = "/v1/models/digits/aliases/production"
    assert client.put(path, json={"version": 2**63}).status_code == 422
    assert client.put(path, json={"version": 2**31 - 1}).status_code == 404


def insert_before_flush(table, **row):
    """Let the next flush find a row that another request has made, as on PostgreSQL."""

    def insert(session, _context, _instances):
        row["created_at" if table is RegistryModel else "moved_at"] = 0
        names = ", ".join(row)
        values = ", ".join(f":{name}" for name in row)
        text = sa.text(f"INSERT INTO {table.__tablename__} ({names}) VALUES ({values})")
        session.connection().execute(text, row)

    sa.event.listen(Session, "before_flush", insert, once=True)


def test_two_requests_may_create_the_same_model_or_alias(client, finished, register):
    job = finished()
    insert_before_flush(RegistryModel, name="digits", last_version=0)
    assert register(job)["version"] == 1
    insert_before_flush(RegistryAlias, name="digits", alias="production", version=1)
    moved = client.put("/v1/models/digits/aliases/production", json={"version": 1})
    assert (moved.status_code, moved.json()["aliases"]) == (200, ["production"])
