"""Uploads of data sets in parts, over HTTP."""

import base64
import errno
import hashlib
import os

import httpx
import pytest

from redkiln.client import Client, datasets, part_upload
from redkiln.client.connection import RetryPolicy
from service.uploads.parts import PartFiles
from service.uploads.rules import forget_expired

PART_BYTES = 1024
CONTENT = b"size,weight,label\n" + b"".join(
    b"%d.25,%d,%s\n" % (37 * i % 101, i % 13, b"ab"[i % 2 :][:1]) for i in range(300)
)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def settings(settings):
    return settings.model_copy(update={"upload_part_bytes": PART_BYTES})


def begin(client, *, name="rows", content=CONTENT, sha256=None, **fields):
    sha256 = sha256 or hashlib.sha256(content).hexdigest()
    body = {"name": name, "sha256": sha256, "size_bytes": len(content), **fields}
    return client.post("/v1/uploads", json=body)


def put(client, upload_id, number, content=None, *, sent=None):
    part = CONTENT[number * PART_BYTES :][:PART_BYTES] if content is None else content
    digest = base64.b64encode(hashlib.sha256(part).digest()).decode()
    headers = {"Content-Digest": f"sha-256=:{digest}:"}
    return client.put(
        f"/v1/uploads/{upload_id}/parts/{number}", content=sent or part, headers=headers
    )


def folders(services):
    return [path.name for path in services.settings.uploads_dir.iterdir()]


def test_an_interrupted_upload_continues_and_becomes_a_data_set(client, services):
    begun = begin(client, target="label")
    assert begun.status_code == 201
    upload = begun.json()
    num_parts = upload["num_parts"]
    assert (num_parts, upload["received"]) == (-(-len(CONTENT) // PART_BYTES), [])
    for number in range(num_parts - 1, 0, -1):
        assert put(client, upload["id"], number).status_code == 204
    early = client.post(f"/v1/uploads/{upload['id']}/finish")
    assert (early.status_code, early.json()["missing"]) == (409, [0])

    again = begin(client, target="label")
    assert (again.status_code, again.json()["id"]) == (200, upload["id"])
    assert again.json()["received"] == list(range(1, num_parts))
    assert put(client, upload["id"], 0).status_code == 204
    made = client.post(f"/v1/uploads/{upload['id']}/finish")
    assert made.status_code == 202
    dataset = made.json()
    assert made.headers["location"] == f"/v1/datasets/{dataset['id']}"
    assert (dataset["sha256"], dataset["options"]) == (SHA256, {"target": "label"})
    assert b"".join(services.storage.open(SHA256)) == CONTENT
    assert folders(services) == []
    assert client.get(f"/v1/uploads/{upload['id']}").status_code == 404


def test_content_that_is_stored_is_a_data_set_after_one_request(client):
    stored = client.post("/v1/datasets", params={"name": "rows"}, content=CONTENT,
                         headers={"Content-Type": "text/csv"}).json()  # fmt: skip
    same = begin(client)
    assert (same.status_code, same.json()["dataset"]["id"]) == (200, stored["id"])
    other = begin(client, name="others")
    assert (other.status_code, other.json()["dataset"]["name"]) == (201, "others")
    assert other.json()["dataset"]["sha256"] == SHA256


def test_the_digest_of_another_stored_file_makes_no_data_set(client, worker, submit):
    submit()
    attempt = worker.claim()
    attempt.upload(CONTENT)
    assert begin(client).json()["dataset"] is None


def test_a_damaged_part_is_refused(client):
    upload_id = begin(client).json()["id"]
    damaged = put(client, upload_id, 0, sent=bytes(PART_BYTES))
    assert (damaged.status_code, damaged.json()["code"]) == (422, "digest_mismatch")
    assert put(client, upload_id, 0, b"short").status_code == 400
    assert put(client, upload_id, 99).status_code == 400
    assert put(client, upload_id, 0, sent=bytes(PART_BYTES + 1)).status_code == 413
    bare = client.put(f"/v1/uploads/{upload_id}/parts/0", content=b"x",
                      headers={"Content-Digest": "md5=:abc=:"})  # fmt: skip
    assert bare.json()["code"] == "invalid_digest"
    assert client.get(f"/v1/uploads/{upload_id}").json()["received"] == []


def test_a_file_that_changed_while_it_was_sent_is_forgotten(client, services):
    upload = begin(client, sha256="0" * 64).json()
    for number in range(upload["num_parts"]):
        put(client, upload["id"], number)
    made = client.post(f"/v1/uploads/{upload['id']}/finish")
    assert (made.status_code, made.json()["code"]) == (422, "digest_mismatch")
    assert folders(services) == []
    assert client.get(f"/v1/uploads/{upload['id']}").status_code == 404


def test_a_cancelled_upload_leaves_nothing(client, services):
    upload_id = begin(client).json()["id"]
    put(client, upload_id, 0)
    uses = {one["kind"]: one for one in client.get("/v1/storage").json()["kinds"]}
    assert (uses["uploads"]["count"], uses["uploads"]["bytes"]) == (1, PART_BYTES)
    assert client.delete(f"/v1/uploads/{upload_id}").status_code == 204
    assert folders(services) == []
    assert put(client, upload_id, 1).status_code == 404


def test_an_upload_without_new_parts_expires(client, services):
    old, new = (begin(client, name=name).json()["id"] for name in ("old", "new"))
    folder = services.settings.uploads_dir
    os.utime(folder / old, (0, 0))
    assert forget_expired(services) == 1
    assert folders(services) == [new]
    assert client.get(f"/v1/uploads/{old}").status_code == 404
    assert client.get(f"/v1/uploads/{new}").json()["expires_at"].endswith("Z")


def test_files_and_names_over_the_limits_are_refused(client):
    too_large = {"name": "x", "sha256": SHA256, "size_bytes": 1 << 60}
    assert client.post("/v1/uploads", json=too_large).status_code == 413
    assert begin(client, name="ds_x").json()["code"] == "invalid_name"
    assert begin(client, sha256="abc").status_code == 422


def test_only_one_request_joins_the_parts(client, services):
    upload = begin(client).json()
    for number in range(upload["num_parts"]):
        put(client, upload["id"], number)
    with PartFiles(services.settings.uploads_dir).lock(upload["id"]):
        busy = client.post(f"/v1/uploads/{upload['id']}/finish")
    assert (busy.status_code, busy.json()["code"]) == (503, "upload_finishing")
    assert client.post(f"/v1/uploads/{upload['id']}/finish").status_code == 202


def free_bytes(monkeypatch, num_bytes):
    status = os.statvfs_result((1, 1, 10**9, num_bytes, num_bytes, 1, 1, 1, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _path: status)


def test_room_is_needed_for_missing_parts_and_the_joined_file(client, monkeypatch, services):
    free_bytes(monkeypatch, 2 * len(CONTENT) - 1)
    assert begin(client).status_code == 507
    free_bytes(monkeypatch, 2 * len(CONTENT))
    upload_id = begin(client).json()["id"]
    assert put(client, upload_id, 0).status_code == 204
    free_bytes(monkeypatch, 2 * len(CONTENT) - PART_BYTES)
    assert begin(client).json()["id"] == upload_id


def test_stored_content_needs_no_room(client, monkeypatch):
    client.post("/v1/datasets", params={"name": "rows"}, content=CONTENT,
                headers={"Content-Type": "text/csv"})  # fmt: skip
    free_bytes(monkeypatch, 0)
    assert begin(client).json()["dataset"]["name"] == "rows"


def test_a_full_disk_gives_507_and_leaves_nothing(client, monkeypatch, services):
    upload_id = begin(client).json()["id"]

    def fail(_fd):
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        answer = put(client, upload_id, 0)
    assert (answer.status_code, answer.json()["code"]) == (507, "storage_full")
    assert list((services.settings.uploads_dir / upload_id).iterdir()) == []


def test_another_size_of_parts_begins_another_upload(client, services):
    old = begin(client).json()
    services.settings.upload_part_bytes = PART_BYTES // 2
    new = begin(client).json()
    assert (new["id"] != old["id"], new["part_bytes"]) == (True, PART_BYTES // 2)
    part = CONTENT[: PART_BYTES // 2]
    assert put(client, new["id"], 0, part).status_code == 204


class Breaking(httpx.HTTPTransport):
    """A connection that breaks before the requests with these numbers."""

    def __init__(self, *broken):
        super().__init__(trust_env=False)
        self.paths, self.broken = [], broken

    def handle_request(self, request):
        self.paths.append(f"{request.method} {request.url.path}")
        if len(self.paths) in self.broken:
            raise httpx.ReadError("cut")
        return super().handle_request(request)


def test_the_client_sends_missing_parts_only_and_then_nothing(client, tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "SINGLE_BYTES", 100)
    monkeypatch.setattr(part_upload, "PARALLEL", 1)
    path = tmp_path / "rows.csv"
    path.write_bytes(CONTENT)
    transport = Breaking(4)
    policy = RetryPolicy(attempts=1)
    progress = []
    with Client(str(client.base_url), transport=transport, policy=policy) as user:
        made = user.push_dataset(path, target="label", on_progress=lambda *p: progress.append(p))
        assert (made.sha256, made.options) == (SHA256, {"target": "label"})
        assert progress[-1] == ("uploading", len(CONTENT), len(CONTENT))
        puts = [path for path in transport.paths if path.startswith("PUT")]
        assert len(puts) == len(set(puts)) + 1, "only the part that broke is sent twice"
        num_before = len(transport.paths)
        assert user.push_dataset(path, target="label").id == made.id
    assert transport.paths[num_before:] == ["POST /v1/uploads"]


class Losing(Breaking):
    """A connection that loses the answer to `finish`, or a proxy that gives up on it."""

    def __init__(self, status):
        super().__init__()
        self.status = status

    def handle_request(self, request):
        answer = super().handle_request(request)
        if not request.url.path.endswith("/finish"):
            return answer
        answer.read()
        if self.status == 404:  # as if another request had finished before
            return super().handle_request(request)
        return httpx.Response(self.status)


@pytest.mark.parametrize("status", [404, 504])
def test_the_client_finds_the_data_set_if_the_answer_to_finish_is_lost(
    client, tmp_path, monkeypatch, status
):
    monkeypatch.setattr(datasets, "SINGLE_BYTES", 100)
    path = tmp_path / "rows.csv"
    path.write_bytes(CONTENT)
    transport = Losing(status)
    with Client(str(client.base_url), transport=transport) as user:
        made = user.push_dataset(path, target="label")
    assert (made.sha256, made.options) == (SHA256, {"target": "label"})
    assert transport.paths[-1] == "POST /v1/uploads"
    found = client.get("/v1/datasets", params={"name": "rows"}).json()["data"]
    assert len(found) == 1, found
