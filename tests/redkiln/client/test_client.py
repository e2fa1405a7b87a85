import io
import subprocess
import sys
import tarfile

import pytest

from redkiln import Client
from redkiln.client import dataset_name
from redkiln.errors import (
    ConnectionFailed,
    DatasetInvalid,
    NotAuthorized,
    NotFound,
    Rejected,
    TransferError,
)
from redkiln.tasks.image_classification import ImageClassificationSpec

JOB_ID = "job_0123456789abcdefghijkl"


def sent(fake, method, path):
    return [headers for m, p, headers in fake.requests if (m, p) == (method, path)]


def test_a_submission_always_carries_an_idempotency_key(fake, client):
    client.submit({"dataset": "flowers"})
    client.submit({"dataset": "flowers"})
    keys = [key for _, key in fake.submitted]
    assert all(keys)
    assert keys[0] != keys[1]


def test_a_retried_submission_keeps_its_key(fake, client):
    fake.failures = [(503, {})]
    client.submit({"dataset": "flowers"}, idempotency_key="mine")
    keys = [headers["idempotency-key"] for headers in sent(fake, "POST", "/v1/jobs")]
    assert keys == ["mine", "mine"]
    assert len(fake.submitted) == 1


def test_a_typed_spec_is_sent_with_only_the_fields_that_were_set(fake, client):
    client.submit(ImageClassificationSpec(dataset="flowers", training={"epochs": 3}))
    spec, _ = fake.submitted[0]
    assert spec == {
        "dataset": "flowers",
        "training": {"epochs": 3},
        "task": "image-classification",
    }


def test_a_wrong_spec_says_where(client):
    with pytest.raises(Rejected) as caught:
        client.submit({"dataset": "flowers", "epoch": 3})
    assert caught.value.errors[0].pointer == "/epoch"


def test_a_path_instead_of_a_spec_says_what_to_do(client):
    with pytest.raises(TypeError, match=r"'job.yaml' is not a spec. .* yaml.safe_load"):
        client.submit("job.yaml")


def test_a_dry_run_fills_in_defaults_and_creates_nothing(fake, client):
    assert client.dry_run({"dataset": "flowers"}).spec["training"]["epochs"] == 10
    assert fake.submitted == []


def test_a_folder_is_sent_as_a_tar_under_its_name(fake, client, image_folder):
    progress = []
    view = client.push_dataset(image_folder, on_progress=lambda *p: progress.append(p))
    name, media_type, body = fake.uploads[0]
    assert (name, media_type) == ("flowers", "application/x-tar")
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        assert len(archive.getnames()) == 5
    assert client.wait_dataset(view.id).status == "ready"
    assert progress[-1] == ("uploading", len(body), len(body))


def test_a_push_can_wait_until_the_set_is_validated(client, image_folder):
    assert client.push_dataset(image_folder, wait=True).status == "ready"


def test_the_same_bytes_under_the_same_name_are_sent_once(fake, client, image_folder):
    first = client.push_dataset(image_folder)
    assert client.push_dataset(image_folder).id == first.id
    client.push_dataset(image_folder, name="other")
    assert len(fake.uploads) == 2


def test_a_refused_data_set_says_why_file_by_file(fake, client, image_folder):
    fake.dataset_errors = [
        {"code": "not_an_image", "message": "is no image", "path": "daisy/0.png"}
    ]
    view = client.push_dataset(image_folder)
    with pytest.raises(DatasetInvalid, match=r"daisy/0\.png: is no image"):
        client.wait_dataset(view.id)


def test_a_folder_outside_the_roots_is_refused(client, image_folder):
    with pytest.raises(NotAuthorized, match="not under a data root"):
        client.register_folder(image_folder)


def test_all_artifacts_of_a_job_go_into_a_folder(client, tmp_path):
    paths = client.download_all(JOB_ID, tmp_path / "out")
    assert sorted(path.name for path in paths) == ["model.onnx", "report.md"]


def test_every_list_is_typed(client):
    assert client.tasks()[0].name == "image-classification"
    assert next(client.jobs(metadata={"team": "blue"})).name == "flowers"
    assert client.workers()[0].is_live
    assert client.metrics(JOB_ID)[0].values == [2.0, 1.0, 0.5]
    assert client.telemetry(JOB_ID, names=["gpu/0/power_watts"])[0].at_ms == [1000, 2000]
    assert client.gpus()[0].telemetry.power_watts == 312.0
    assert client.gpus(arch="gfx942") == []
    assert [event.seq for event in client.events(JOB_ID, after_seq=4)] == [5, 6]


def test_keys_need_a_key(fake):
    with Client(fake.url) as stranger, pytest.raises(NotAuthorized):
        stranger.keys()
    with Client(fake.url, "rk_admin") as admin:
        assert admin.create_key("anna").secret == "rk_secret"
        assert admin.keys()[0].name == "anna"


def test_an_absent_service_is_one_error(monkeypatch):
    monkeypatch.setattr("redkiln.client.connection.RetryPolicy.attempts", 1)
    with Client("http://127.0.0.1:9") as client, pytest.raises(ConnectionFailed):
        client.job("last")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/data/flowers", "flowers"),
        ("/data/mnist-12k.zip", "mnist-12k"),
        ("/data/a b (1).tar.gz", "a-b-1"),
        ("/data/花", "花"),
        ("/data/🐕 hunde!.zip", "hunde"),
        ("/data/ภาษาไทย.csv", "ภาษาไทย"),
        ("/data/🐕", "data"),
        ("/data/Données 2024.csv", "Données-2024"),
    ],
)
def test_a_data_set_is_named_after_its_path(path, expected, tmp_path):
    assert dataset_name(tmp_path / path) == expected


def test_importing_the_package_needs_no_http_client():
    code = "import redkiln, redkiln.views.job, sys; print('httpx' in sys.modules, redkiln.Client)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False <class")


def test_a_known_preview_is_not_sent_again(client, fake):
    fake.preview = ("image/png", 7, b"picture")
    found = client.preview(JOB_ID)
    assert (found.step, found.media_type, found.content) == (7, "image/png", b"picture")
    assert client.preview(JOB_ID, etag=found.etag) is None
    fake.preview = ("image/png", 8, b"newer")
    assert client.preview(JOB_ID, etag=found.etag).step == 8


def test_artifacts_with_folders_in_their_names_are_fetched_into_folders(client, fake, tmp_path):
    fake.files = {"adapter/weights.bin": ("file", b"1234"), "a.txt": ("file", b"5")}
    paths = client.download_all("job_0123456789abcdefghijkl", tmp_path / "x")
    assert sorted(path.relative_to(tmp_path).as_posix() for path in paths) == [
        "x/a.txt",
        "x/adapter/weights.bin",
    ]
    (nested,) = (a for a in client.artifacts("job_0123456789abcdefghijkl") if "/" in a.name)
    assert client.download(nested, tmp_path).read_bytes() == b"1234"


def test_an_onnx_file_brings_the_file_of_its_weights(client, fake, tmp_path):
    fake.files = {"m.onnx": ("model", b"1"), "m.onnx.data": ("file", b"2"), "a": ("file", b"3")}
    paths = client.download_all(JOB_ID, tmp_path, names=["m.onnx"])
    assert [path.name for path in paths] == ["m.onnx", "m.onnx.data"]
    model = next(artifact for artifact in client.artifacts(JOB_ID) if artifact.kind == "model")
    (tmp_path / "own").mkdir()
    assert client.download(model, tmp_path / "own" / "net.onnx").read_bytes() == b"1"
    assert (tmp_path / "own" / "m.onnx.data").read_bytes() == b"2"


@pytest.mark.parametrize("name", ["../up.bin", "a/../../up.bin", "job.json"])
def test_a_name_that_leads_out_of_the_folder_is_refused(client, fake, tmp_path, name):
    fake.files = {"good.bin": ("file", b"1"), name: ("file", b"1234")}
    with pytest.raises(TransferError, match="cannot be used as a file name here"):
        client.download_all("job_0123456789abcdefghijkl", tmp_path / "deep" / "er")
    assert not (tmp_path / "deep").exists()


def test_a_job_can_be_named_by_its_name(fake, client, tmp_path):
    assert client.job("flowers").id == JOB_ID
    assert client.wait("flowers", timeout_seconds=9).id == JOB_ID
    assert [event.seq for event in client.events("flowers", after_seq=5)] == [6]
    assert client.download_all("flowers", tmp_path, names=["report.md"])
    assert client.pause("flowers").id == JOB_ID
    client.move("flowers", before="flowers")
    assert fake.steered[-1] == ("move", {"before": JOB_ID})
    with pytest.raises(NotFound):
        client.job("a name/of none")


def test_a_data_set_can_be_named_by_its_name(client, image_folder):
    pushed = client.push_dataset(image_folder, wait=True)
    assert client.dataset("flowers").id == client.wait_dataset("flowers").id == pushed.id
    client.delete_dataset("flowers")
    with pytest.raises(NotFound):
        client.dataset("flowers")
