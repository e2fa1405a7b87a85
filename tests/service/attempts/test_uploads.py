"""Bytes that an attempt uploads."""

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


def test_unused_uploads_of_an_attempt_are_deleted_when_it_ends(submit, worker, services):
    submit()
    attempt = worker.claim()
    sha256 = attempt.upload(b"unused")
    collect_blobs(services)
    assert services.storage.stat(sha256) is not None
    attempt.fail()
    collect_blobs(services)
    assert services.storage.stat(sha256) is None
