"""Bytes that an attempt uploads."""

import hashlib

from service.housekeeping import collect_blobs


def test_bytes_with_another_digest_are_refused_and_not_kept(client, submit, worker, services):
    submit()
    attempt = worker.claim()
    path = f"/v1/attempts/{attempt.id}/blobs/{'0' * 64}"
    response = client.put(path, content=b"flipped", headers=attempt.headers)
    assert (response.status_code, response.json()["code"]) == (422, "digest_mismatch")
    assert client.head(path, headers=attempt.headers).status_code == 404


def test_stored_bytes_need_not_be_uploaded_again(client, submit, worker):
    submit()
    attempt = worker.claim()
    sha256 = attempt.upload(b"known")
    path = f"/v1/attempts/{attempt.id}/blobs/{sha256}"
    assert client.head(path, headers=attempt.headers).status_code == 200


def test_the_digest_of_bytes_of_another_job_opens_them_to_nobody(
    client, submit, worker, other_worker
):
    submit()
    submit()
    theirs, mine = worker.claim(), other_worker.claim()
    secret = b"weights of another job"
    sha256 = theirs.upload(secret)
    path = f"/v1/attempts/{mine.id}/blobs/{sha256}"
    client.put(path, content=b"nonsense", headers=mine.headers)
    assert client.head(path, headers=mine.headers).status_code == 404
    artifact = {"kind": "file", "media_type": "text/plain", "name": "a.txt"}
    answer = mine.post("artifacts", **artifact, sha256=sha256, size_bytes=len(secret))
    assert answer.json()["errors"][0]["code"] == "not_stored"
    body = {"step": 1, "sha256": sha256, "size_bytes": len(secret), "manifest": {}}
    assert mine.post("checkpoints", **body).json()["code"] == "blob_missing"
    assert mine.upload(secret) == sha256
    assert mine.post("checkpoints", **body).status_code == 200


def test_the_next_attempt_of_a_job_need_not_send_its_checkpoint_again(client, submit, worker):
    submit()
    attempt = worker.claim()
    attempt.checkpoint(1, data=b"kept")
    attempt.fail()
    again = worker.claim()
    sha256 = hashlib.sha256(b"kept").hexdigest()
    path = f"/v1/attempts/{again.id}/blobs/{sha256}"
    assert client.head(path, headers=again.headers).status_code == 200


def test_unused_uploads_of_an_attempt_are_deleted_when_it_ends(submit, worker, services):
    submit()
    attempt = worker.claim()
    sha256 = attempt.upload(b"unused")
    collect_blobs(services)
    assert services.storage.stat(sha256) is not None
    attempt.fail()
    collect_blobs(services)
    assert services.storage.stat(sha256) is None
