import io
import os
import tarfile

import pytest
from httpx import RemoteProtocolError

from redkiln.datasets import DatasetIndex
from service.datasets import beneath
from service.datasets.folder_tar import list_samples, stream_tar
from service.errors import Gone


@pytest.fixture
def settings(settings, folder):
    return settings.model_copy(update={"data_roots": [folder.parent]})


@pytest.fixture
def attempt(client, worker, folder, settled):
    """An attempt on a data set in a folder."""
    dataset = client.post("/v1/datasets", json={"path": str(folder)}).json()
    assert settled(client, dataset["id"])["status"] == "ready"
    assert client.post("/v1/jobs", json={"dataset": dataset["id"]}).status_code == 202
    return worker.claim()


def fetch(attempt, what="dataset", **headers):
    url = f"/v1/attempts/{attempt.id}/{what}"
    return attempt.client.get(url, headers={**attempt.headers, **headers})


def test_a_worker_gets_exactly_the_indexed_files_of_a_folder(attempt, folder, image_files):
    (folder / "train/cat/added-later.png").write_bytes(b"not indexed")
    answer = fetch(attempt)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        members = archive.getmembers()
        names = [member.name for member in members]
        assert names == sorted(image_files)
        assert {(m.mtime, m.uid, m.uname) for m in members} == {(0, 0, "")}
        assert {m.name: archive.extractfile(m).read() for m in members} == image_files


def test_the_same_index_gives_the_same_bytes(attempt, folder):
    first = fetch(attempt).content
    for path in folder.rglob("*.png"):
        os.utime(path, (1, 1))
        path.chmod(0o600)
    assert fetch(attempt).content == first


def test_the_index_has_the_digest_of_each_file(attempt):
    answer = fetch(attempt, "dataset/index")
    assert answer.headers["etag"] == f'"sha256-{attempt.claimed["dataset"]["index_sha256"]}"'
    index = DatasetIndex.model_validate_json(answer.content)
    samples = [sample for split in index.splits.values() for sample in split]
    assert len(samples) == 12
    assert all(sample.sha256 for sample in samples)
    assert attempt.claimed["dataset"]["path"].endswith("/pets")
    assert attempt.claimed["dataset"]["sha256"] == attempt.claimed["dataset"]["index_sha256"]


def change(path):
    path.write_bytes(b"something else")


def replace_with_link(path):
    path.unlink()
    path.symlink_to("/etc/passwd")


def replace_folder_with_link(path):
    path.parent.rename(path.parents[2] / "moved")
    path.parent.symlink_to(path.parents[2] / "moved")


def replace_with_pipe(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "meddle", [change, os.unlink, replace_with_link, replace_folder_with_link, replace_with_pipe]
)
def test_a_folder_that_changed_is_never_sent_as_the_validated_one(
    attempt, folder, image_files, meddle
):
    index = DatasetIndex.model_validate_json(fetch(attempt, "dataset/index").content)
    meddle(folder / "train/dog/0.png")
    root_fd = beneath.open_root(folder)
    with pytest.raises(Gone, match="has changed"):
        b"".join(stream_tar(root_fd, list_samples(index)))
    with pytest.raises(RemoteProtocolError):  # the connection ends before the tar does
        fetch(attempt)


def test_a_folder_that_is_gone_is_410(attempt, folder):
    folder.rename(folder.parent / "elsewhere")
    answer = fetch(attempt)
    assert answer.status_code == 410


def test_an_archive_is_sent_as_it_was_uploaded(client, worker, archive, settled):
    headers = {"Content-Type": "application/zip"}
    dataset = client.post(
        "/v1/datasets", params={"name": "zipped"}, content=archive, headers=headers
    ).json()
    settled(client, dataset["id"])
    client.post("/v1/jobs", json={"dataset": "zipped"})
    attempt = worker.claim()
    assert attempt.claimed["dataset"]["kind"] == "archive"
    assert fetch(attempt).content == archive
    part = fetch(attempt, Range="bytes=10-19")
    assert (part.status_code, part.content) == (206, archive[10:20])


def test_a_built_in_set_cannot_be_downloaded(worker, submit):
    submit()
    attempt = worker.claim()
    assert fetch(attempt).status_code == 404
    assert fetch(attempt, "dataset/index").status_code == 404
