import pytest


@pytest.fixture
def use(client):
    def use():
        response = client.get("/v1/storage")
        assert response.status_code == 200, response.text
        body = response.json()
        return {item["kind"]: item for item in body["kinds"]}, body

    return use


def sizes(kind):
    return kind["count"], kind["bytes"], kind["freeable_bytes"]


def test_an_empty_service_stores_only_its_database(use, services):
    kinds, body = use()
    for name in ("datasets", "artifacts", "checkpoints", "bundles", "uploads", "logs"):
        assert sizes(kinds[name]) == (0, 0, 0)
        assert kinds[name]["how"]
    # The files of a PostgreSQL are not the service's.
    assert (kinds["database"]["bytes"] > 0) is services.database.is_sqlite
    assert body["largest"] == []
    assert body["disk"]["total_bytes"] > body["disk"]["free_bytes"] > 0


def test_only_what_ended_jobs_have_can_be_freed(use, submit, worker):
    submit(name="small", retry={"failures": 0})
    failed = worker.claim()
    failed.checkpoint(10, data=b"x" * 100)
    failed.report(log=(0, b"hello\n"))
    failed.fail()
    large = submit(name="large")["id"]
    worker.claim().succeed(b"{" + b" " * 998 + b"}")
    submit()
    running = worker.claim()
    running.checkpoint(10, data=b"y" * 1000)

    kinds, body = use()
    assert sizes(kinds["checkpoints"]) == (2, 1100, 100)
    assert sizes(kinds["artifacts"]) == (1, 1000, 1000)
    assert kinds["logs"]["freeable_bytes"] == 6
    assert [(item["name"], item["bytes"]) for item in body["largest"]] == [
        ("large", 1000), ("small", 100),
    ]  # fmt: skip
    assert body["largest"][0]["url"] == f"/v1/jobs/{large}"


def test_deleting_the_largest_item_frees_its_space(client, use, submit, worker):
    submit()
    worker.claim().succeed(b"{" + b" " * 998 + b"}")
    (item,) = use()[1]["largest"]
    assert client.delete(item["url"]).status_code == 204
    kinds, body = use()
    assert sizes(kinds["artifacts"]) == (0, 0, 0)
    assert body["largest"] == []


def test_a_data_set_that_a_job_needs_cannot_be_freed(client, use):
    text = "a,b,label\n" + "".join(f"{n},{n % 7},{'xy'[n % 2]}\n" for n in range(200))
    push = client.post("/v1/datasets?name=table", content=text.encode(),
                       headers={"Content-Type": "text/csv"})  # fmt: skip
    assert push.status_code == 202, push.text
    stored = use()[0]["datasets"]
    assert stored["count"] == 1
    assert stored["freeable_bytes"] == stored["bytes"] >= len(text)
    job = client.post("/v1/jobs", json={"dataset": "table"}).json()
    kinds, body = use()
    assert kinds["datasets"]["freeable_bytes"] == 0
    assert body["largest"] == []
    client.post(f"/v1/jobs/{job['id']}/cancel")
    assert [item["kind"] for item in use()[1]["largest"]] == ["dataset"]
