import errno
import hashlib
import os
import socket
import time
import unicodedata

import httpx
import pytest

from redkiln.datasets import BUILTINS
from redkiln.tls import tls_for
from service.app import create_app
from service.blobs.rules import collect
from service.datasets.rules import ensure_builtins
from service.housekeeping import forget_deleted_datasets

RAW = {"Content-Type": "application/octet-stream"}


def upload(client, content, name="pets", **params):
    params = {"name": name, **params}
    return client.post("/v1/datasets", params=params, content=content, headers=RAW)


def pieces(content, size=1000):
    for start in range(0, len(content), size):
        yield content[start : start + size]


def blobs(services):
    return sorted(blob.sha256 for blob in services.storage.list_blobs())


def staged(services):
    return list(services.storage.work_dir.iterdir())


def test_an_uploaded_archive_is_validated_and_ready(client, archive, settled):
    answer = upload(client, archive)
    assert answer.status_code == 202
    view = answer.json()
    assert answer.headers["location"] == f"/v1/datasets/{view['id']}"
    assert (view["status"], view["kind"], view["name"]) == ("validating", "archive", "pets")
    assert view["sha256"] == hashlib.sha256(archive).hexdigest()
    assert view["size_bytes"] == len(archive)
    view = settled(client, view["id"])
    assert view["status"] == "ready"
    assert view["task"] == "image-classification"
    assert view["counts"] == {"train": {"cat": 4, "dog": 4}, "test": {"cat": 2, "dog": 2}}
    assert view["image_sizes"] == {"8x8": 12}
    assert view["created_at"].endswith("Z")


def test_an_invalid_archive_is_explained_file_by_file(client, settled):
    view = settled(client, upload(client, b"not an archive").json()["id"])
    assert view["status"] == "invalid"
    assert [error["code"] for error in view["errors"]] == ["not_an_archive"]
    assert view["counts"] == {}


def test_chunked_bodies_are_accepted(client, archive):
    answer = upload(client, pieces(archive))
    assert answer.status_code == 202
    assert answer.json()["sha256"] == hashlib.sha256(archive).hexdigest()


def test_the_same_bytes_under_the_same_name_are_the_same_set(client, archive, settled):
    first = upload(client, archive).json()["id"]
    again = upload(client, archive)
    assert again.json()["id"] == first
    settled(client, first)
    assert upload(client, archive).status_code == 200
    other_name = upload(client, archive, name="animals").json()["id"]
    other_seed = upload(client, archive, seed=7).json()["id"]
    assert len({first, other_name, other_seed}) == 3
    back = upload(client, archive).json()["id"]
    assert back not in (first, other_seed), "the newest of the name decides"


def test_an_invalid_upload_that_is_repeated_is_validated_again(client, settled):
    first = upload(client, b"broken").json()["id"]
    settled(client, first)
    again = upload(client, b"broken")
    assert again.status_code == 202
    assert (again.json()["id"], again.json()["status"]) == (first, "validating")
    assert settled(client, first)["status"] == "invalid"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "../x",
        "a/b",
        ".hidden",
        "builtin:digits",
        "ds_1",
        "a" * 101,
        "x\n",
        "a\u202eb",
        "\u0301a",
        None,
    ],
)
def test_invalid_names_are_refused_before_the_body_is_stored(client, services, archive, name):
    params = {} if name is None else {"name": name}
    answer = client.post("/v1/datasets", params=params, content=archive, headers=RAW)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/name"
    assert blobs(services) == []


def test_an_empty_body_is_refused(client):
    answer = client.post(
        "/v1/datasets", params={"name": "pets"}, content=b"", headers={"Content-Type": "x/y"}
    )
    assert answer.status_code == 400
    assert answer.json()["code"] == "empty_body"


@pytest.mark.parametrize(
    ("media_type", "content", "detail"),
    [
        ("application/zip", b"size,kind\n1,a\n", "the body is not a zip archive"),
        ("application/zip", b"PK", "the body is not a zip archive"),
        ("application/gzip", b"PK\x03\x04", "the body is not a gzip file"),
    ],
)
def test_a_body_of_another_format_is_refused(client, services, media_type, content, detail):
    headers = {"Content-Type": media_type}
    answer = client.post("/v1/datasets?name=pets", content=content, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "wrong_format")
    assert detail in answer.json()["detail"]
    assert (blobs(services), staged(services)) == ([], [])


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_zip_may_come_in_pieces(client, archive, size):
    headers = {"Content-Type": "application/zip"}
    sent = pieces(archive, size)
    answer = client.post("/v1/datasets?name=pets", content=sent, headers=headers)
    assert answer.status_code == 202


@pytest.fixture
def limited(serve, settings):
    """A separate service with some settings changed."""

    def limited(**changes):
        app = create_app(settings.model_copy(update=changes))
        url, _ = serve(app)
        return httpx.Client(base_url=url, verify=tls_for(url)), app.state.services

    return limited


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_over_the_limit_is_413_and_leaves_nothing(limited, archive, is_chunked):
    client, services = limited(max_upload_bytes=500)
    body = pieces(archive, 100) if is_chunked else archive
    with client:
        answer = client.post("/v1/datasets", params={"name": "x"}, content=body, headers=RAW)
        assert answer.status_code == 413
        assert answer.headers["content-type"] == "application/problem+json"
        assert client.get("/v1/datasets", params={"name": "x"}).json()["data"] == []
    assert blobs(services) == []
    assert staged(services) == []


def test_a_disk_that_fills_up_is_507_and_leaves_nothing(client, services, archive, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("service.storage.staged.os.write", full)
    answer = upload(client, archive)
    assert answer.status_code == 507
    assert answer.json()["code"] == "storage_full"
    assert blobs(services) == []
    assert staged(services) == []


def test_an_announced_body_that_cannot_fit_is_507(limited, archive):
    client, services = limited(min_free_bytes=2**60)
    with client:
        assert upload(client, archive).status_code == 507
    assert staged(services) == []


@pytest.mark.parametrize(
    "media_type", ["multipart/form-data; boundary=x", "application/x-www-form-urlencoded", ""]
)
def test_forms_and_untyped_bodies_are_415(client, archive, media_type):
    headers = {"Content-Type": media_type}
    answer = client.post("/v1/datasets", params={"name": "x"}, content=archive, headers=headers)
    assert answer.status_code == 415


def test_lists_are_paged_newest_first_with_the_built_in_sets(client):
    ids = [upload(client, b"x%d" % number, name=f"n{number}").json()["id"] for number in range(5)]
    first = client.get("/v1/datasets", params={"limit": 4}).json()
    assert [item["id"] for item in first["data"]] == ids[:0:-1]
    assert first["has_more"]
    rest = client.get("/v1/datasets", params={"limit": 200, "after": first["last_id"]}).json()
    builtins = [f"builtin:{name}" for name in reversed(BUILTINS)]
    assert [item["name"] for item in rest["data"]] == ["n0", *builtins]
    assert not rest["has_more"]
    named = client.get("/v1/datasets", params={"name": "n3"}).json()
    assert [item["id"] for item in named["data"]] == [ids[3]]
    for text, names in (("N:DIG", ["builtin:digits"]), ("%", []), ("n3", ["n3"])):
        found = client.get("/v1/datasets", params={"q": text}).json()["data"]
        assert [item["name"] for item in found] == names


def test_the_digits_are_built_in_and_cannot_be_deleted(client):
    (digits,) = client.get("/v1/datasets", params={"name": "builtin:digits"}).json()["data"]
    assert (digits["status"], digits["kind"]) == ("ready", "builtin")
    assert client.get("/v1/datasets/builtin:digits").json() == digits
    assert client.get("/v1/datasets/builtin:nothing").status_code == 404
    assert client.delete("/v1/datasets/builtin:digits").json()["code"] == "builtin_dataset"
    counts = digits["counts"]
    assert sum(counts["train"].values()) + sum(counts["test"].values()) == 1797
    assert counts["train"]["0"] + counts["test"]["0"] == 178
    assert counts["test"]["0"] == 18
    answer = client.delete(f"/v1/datasets/{digits['id']}")
    assert answer.status_code == 409


def test_a_restart_makes_no_second_built_in_set(client, services):
    services.database.write(ensure_builtins)
    assert len(client.get("/v1/datasets").json()["data"]) == len(BUILTINS)


def test_names_of_other_scripts_are_found_in_every_form(client, archive, settled):
    decomposed = unicodedata.normalize("NFD", "Données d été")
    first = upload(client, archive, name=decomposed).json()
    assert first["name"] == "Données d été"
    settled(client, first["id"])
    job = client.post("/v1/jobs", json={"dataset": decomposed, "name": "旅行 照片"}).json()
    assert (job["dataset_id"], job["name"]) == (first["id"], "旅行 照片")


def test_a_deleted_set_is_gone_and_so_are_its_bytes(client, services, archive, settled):
    dataset_id = upload(client, archive).json()["id"]
    settled(client, dataset_id)
    assert len(blobs(services)) == 2
    assert client.delete(f"/v1/datasets/{dataset_id}").status_code == 204
    assert client.get(f"/v1/datasets/{dataset_id}").status_code == 404
    assert client.delete(f"/v1/datasets/{dataset_id}").status_code == 404
    assert client.get("/v1/datasets", params={"name": "pets"}).json()["data"] == []
    collect(services.database, services.storage)
    assert blobs(services) == []


def test_a_deleted_set_is_remembered_until_its_last_job_is_deleted(
    client, services, archive, settled
):
    used, unused, kept = (upload(client, archive, name=name).json()["id"] for name in "abc")
    for each in (used, unused, kept):
        settled(client, each)
    job_id = client.post("/v1/jobs", json={"dataset": used}).json()["id"]
    client.post(f"/v1/jobs/{job_id}/cancel")
    for each in (used, unused):
        client.delete(f"/v1/datasets/{each}")
    assert forget_deleted_datasets(services) == 1
    client.delete(f"/v1/jobs/{job_id}")
    assert forget_deleted_datasets(services) == 1
    assert forget_deleted_datasets(services) == 0
    assert client.get(f"/v1/datasets/{kept}").status_code == 200


def test_a_set_that_a_job_waits_for_cannot_be_deleted(client, archive, settled):
    dataset_id = upload(client, archive).json()["id"]
    settled(client, dataset_id)
    job = client.post("/v1/jobs", json={"dataset": "pets"}).json()
    answer = client.delete(f"/v1/datasets/{dataset_id}")
    assert answer.status_code == 409
    assert answer.json()["code"] == "dataset_in_use"
    client.post(f"/v1/jobs/{job['id']}/cancel")
    assert client.delete(f"/v1/datasets/{dataset_id}").status_code == 204


def test_jobs_on_a_set_that_turns_out_invalid_fail_with_bad_input(client, settled):
    dataset_id = upload(client, b"broken").json()["id"]
    job = client.post("/v1/jobs", json={"dataset": dataset_id})
    if job.status_code == 202:  # else it was refused already
        settled(client, dataset_id)
        view = client.get(f"/v1/jobs/{job.json()['id']}").json()
        assert (view["status"], view["reason"]["code"]) == ("failed", "bad_input")


def test_unknown_ids_are_404(client):
    for dataset_id in ("ds_nope", "pets", "%2e%2e"):
        answer = client.get(f"/v1/datasets/{dataset_id}")
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"


class TestFolders:
    @pytest.fixture
    def settings(self, settings, folder):
        return settings.model_copy(update={"data_roots": [folder.parent]})

    def test_a_folder_is_registered_in_place(self, client, services, folder, settled):
        answer = client.post("/v1/datasets", json={"path": str(folder)})
        assert answer.status_code == 202
        view = settled(client, answer.json()["id"])
        assert (view["status"], view["kind"], view["name"]) == ("ready", "folder", "pets")
        assert view["path"] == str(folder)
        assert view["counts"]["train"] == {"cat": 4, "dog": 4}
        assert view["size_bytes"] == sum(p.stat().st_size for p in folder.rglob("*.png"))
        assert blobs(services) == [view["sha256"]], "only the index is stored"

    @pytest.mark.parametrize(
        ("path", "code"),
        [
            ("/etc", "outside_roots"),
            ("{root}-other", "outside_roots"),
            ("{root}/../..", "not_absolute"),
            ("pets", "not_absolute"),
            ("{root}/nope", "no_such_folder"),
            ("{root}/pets/train/cat/0.png", "not_a_folder"),
            ("{root}/link", "symlink"),
            ("{root}/link/train", "symlink"),
        ],
    )
    def test_other_paths_are_refused_with_a_pointer(self, client, folder, path, code):
        root = folder.parent
        (root / "link").symlink_to(folder)
        answer = client.post("/v1/datasets", json={"path": path.format(root=root)})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == "/path"
        assert answer.json()["errors"][0]["code"] == code

    def test_a_link_inside_the_folder_refuses_the_set(self, client, folder, settled):
        (folder / "train/cat/link.png").symlink_to("/etc/passwd")
        (folder / "train/linked").symlink_to("/etc")
        os.mkfifo(folder / "train/dog/pipe.png")
        view = settled(client, client.post("/v1/datasets", json={"path": str(folder)}).json()["id"])
        assert view["status"] == "invalid"
        assert {(error["code"], error["path"]) for error in view["errors"]} == {
            ("symlink", "train/cat/link.png"),
            ("symlink", "train/linked"),
            ("special_file", "train/dog/pipe.png"),
        }

    def test_deleting_leaves_the_folder_alone(self, client, folder, settled):
        dataset_id = client.post("/v1/datasets", json={"path": str(folder)}).json()["id"]
        settled(client, dataset_id)
        assert client.delete(f"/v1/datasets/{dataset_id}").status_code == 204
        assert (folder / "train/cat/0.png").exists()

    @pytest.mark.parametrize(
        ("body", "status", "pointer"),
        [
            ({}, 422, "/path"),
            ({"path": 5}, 422, "/path"),
            ({"path": "/x", "extra": 1}, 422, "/extra"),
            ({"path": "/x", "seed": -1}, 422, "/seed"),
        ],
    )
    def test_problems_in_the_body_have_a_pointer(self, client, body, status, pointer):
        answer = client.post("/v1/datasets", json=body)
        assert answer.status_code == status
        assert answer.json()["errors"][0]["pointer"] == pointer

    def test_an_unknown_field_suggests_the_nearest_one(self, client):
        body = {"path": "/x", "nmae": "pets"}
        (error,) = client.post("/v1/datasets", json=body).json()["errors"]
        assert (error["pointer"], error["code"]) == ("/nmae", "unknown_field")
        assert error["message"] == "unknown field 'nmae'; did you mean 'name'?"

    def test_invalid_json_is_400(self, client):
        headers = {"Content-Type": "application/json"}
        answer = client.post("/v1/datasets", content=b"{", headers=headers)
        assert answer.status_code == 400


def test_without_roots_no_folder_may_be_registered(client, folder):
    answer = client.post("/v1/datasets", json={"path": str(folder)})
    assert answer.status_code == 422
    assert "REDKILN_DATA_ROOTS" in answer.json()["detail"]


def test_a_client_that_leaves_half_way_leaves_nothing_behind(client, services):
    url = client.base_url
    with socket.create_connection((url.host, url.port)) as connection:
        head = f"POST /v1/datasets?name=x HTTP/1.1\r\nHost: {url.host}\r\nContent-Length: 9000000"
        connection.sendall(f"{head}\r\nContent-Type: application/octet-stream\r\n\r\n".encode())
        connection.sendall(bytes(3_000_000))
        deadline = time.monotonic() + 10
        while not staged(services) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(staged(services)) == 1
    while staged(services) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert staged(services) == []
    assert blobs(services) == []
    assert client.get("/v1/datasets", params={"name": "x"}).json()["data"] == []
