import base64
import hashlib

import pytest

CONTENT = bytes(range(256)) * 20_000  # five chunks
SHA256 = hashlib.sha256(CONTENT).hexdigest()
ETAG = f'"sha256-{SHA256}"'


@pytest.fixture
def artifacts(client, worker, submit):
    """The artifacts of a job that succeeded, by name."""
    job_id = submit()["id"]
    attempt = worker.claim()
    commits = [
        {
            "kind": kind,
            "name": name,
            "media_type": media_type,
            "sha256": attempt.upload(data),
            "size_bytes": len(data),
            "verified": verified,
        }
        for kind, name, media_type, data, verified in [
            ("model", "model.onnx", "application/octet-stream", CONTENT, True),
            ("report", "report.md", "text/markdown", b"# Report", None),
            ("log", "empty.log", "text/plain", b"", None),
        ]
    ]
    assert attempt.finish("succeeded", artifacts=commits).status_code == 200
    page = client.get(f"/v1/jobs/{job_id}/artifacts").json()
    return {item["name"]: item for item in page["data"]}


def test_the_files_of_a_finished_job_are_listed_in_order_of_publication(client, artifacts):
    assert list(artifacts) == ["model.onnx", "report.md", "empty.log"]
    model = artifacts["model.onnx"]
    assert (model["sha256"], model["size_bytes"], model["verified"]) == (SHA256, len(CONTENT), True)
    assert model["url"] == f"/v1/artifacts/{model['id']}/content"
    assert client.get(f"/v1/artifacts/{model['id']}").json() == model


def test_a_job_that_has_not_ended_has_no_artifacts(client, submit):
    page = client.get(f"/v1/jobs/{submit()['id']}/artifacts").json()
    assert (page["data"], page["has_more"], page["first_id"]) == ([], False, None)


def test_a_whole_download_has_its_digest(client, artifacts):
    answer = client.get(artifacts["model.onnx"]["url"])
    assert answer.status_code == 200
    assert answer.content == CONTENT
    headers = answer.headers
    assert headers["etag"] == ETAG
    digest = base64.b64encode(bytes.fromhex(SHA256)).decode()
    assert headers["repr-digest"] == f"sha-256=:{digest}:"
    assert headers["content-length"] == str(len(CONTENT))
    assert headers["accept-ranges"] == "bytes"
    assert headers["content-disposition"] == 'attachment; filename="model.onnx"'
    assert headers["x-content-type-options"] == "nosniff"
    assert "immutable" in headers["cache-control"]
    assert headers["content-type"] == "application/octet-stream"


def test_head_returns_the_same_headers_without_the_bytes(client, artifacts):
    url = artifacts["model.onnx"]["url"]
    head, get = client.head(url), client.get(url)
    assert head.status_code == 200
    assert head.content == b""
    own = {"date", "x-request-id"}
    assert {k: v for k, v in head.headers.items() if k not in own} == {
        k: v for k, v in get.headers.items() if k not in own
    }


@pytest.mark.parametrize(("start", "end"), [(0, 1), (7, 1024**2 + 7), (5_000_000, 5_120_000)])
def test_an_interrupted_download_can_be_resumed(client, artifacts, start, end):
    headers = {"Range": f"bytes={start}-{end - 1}", "If-Range": ETAG}
    answer = client.get(artifacts["model.onnx"]["url"], headers=headers)
    assert answer.status_code == 206
    assert answer.content == CONTENT[start:end]
    assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/{len(CONTENT)}"
    assert answer.headers["content-length"] == str(end - start)


def test_conditions_answer_304_412_and_416(client, artifacts):
    url = artifacts["model.onnx"]["url"]
    same = client.get(url, headers={"If-None-Match": ETAG})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", ETAG)
    other = client.get(url, headers={"If-Match": '"x"'})
    assert (other.status_code, other.json()["code"]) == (412, "precondition_failed")
    behind = client.get(url, headers={"Range": "bytes=99999999-"})
    assert (behind.status_code, behind.headers["content-range"]) == (
        416,
        f"bytes */{len(CONTENT)}",
    )


def test_an_empty_file_is_a_file(client, artifacts):
    answer = client.get(artifacts["empty.log"]["url"])
    assert (answer.status_code, answer.content, answer.headers["content-length"]) == (200, b"", "0")


def test_removed_bytes_are_410(client, services, artifacts):
    services.storage.delete(SHA256)
    answer = client.get(artifacts["model.onnx"]["url"])
    assert (answer.status_code, answer.json()["code"]) == (410, "gone")


@pytest.mark.parametrize("path", ["art_nope", "art_nope/content", "..%2fredkiln.db/content"])
def test_unknown_artifacts_are_404(client, path):
    assert client.get(f"/v1/artifacts/{path}").status_code == 404


def test_an_unknown_job_has_no_list(client):
    assert client.get("/v1/jobs/job_nope/artifacts").status_code == 404


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"sha256": "0" * 64}, "/artifacts/1/sha256"),
        ({"size_bytes": 1}, "/artifacts/1/size_bytes"),
        ({"name": "manifest.json"}, "/artifacts/1/name"),
    ],
)
def test_an_attempt_cannot_finish_with_files_that_are_not_stored(
    client, worker, submit, job, change, pointer
):
    job_id = submit()["id"]
    attempt = worker.claim()
    good = {
        "kind": "manifest",
        "name": "manifest.json",
        "media_type": "application/json",
        "sha256": attempt.upload(b"{}"),
        "size_bytes": 2,
    }
    answer = attempt.finish("succeeded", artifacts=[good, {**good, "name": "b.json", **change}])
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert job(job_id)["status"] == "running"
    assert client.get(f"/v1/jobs/{job_id}/artifacts").json()["data"] == []
