"""Models on the user's machine: an ONNX file, an own class, weights, and their upload."""

import hashlib
import io
import tarfile

import pytest


def submitted(fake):
    return fake.submitted[0][0]["model"]


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "weights.pt"
    path.write_bytes(b"PK some weights")
    return path


def test_an_onnx_file_is_sent_and_named(redkiln, fake, tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(b"a graph")
    assert redkiln("train", "builtin:digits", "--model", path).code == 0
    sha256 = hashlib.sha256(b"a graph").hexdigest()
    assert submitted(fake) == {"source": "onnx", "file": sha256}
    assert fake.bundles[sha256] == b"a graph"


def test_an_own_class_is_sent_with_its_folder(redkiln, fake, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "net.py").write_text("class Net: pass")
    (folder / "blocks.py").write_text("")
    (folder / "start.pt").write_bytes(b"PK")
    model = f"{folder}/net.py:Net"
    done = redkiln(
        "train", "builtin:digits", "--model", model, "--pretrained", folder / "start.pt",
        "--set", "model.arguments.width=8",
    )  # fmt: skip
    assert done.code == 0
    fields = submitted(fake)
    with tarfile.open(fileobj=io.BytesIO(fake.bundles[fields.pop("bundle")])) as archive:
        assert sorted(archive.getnames()) == ["blocks.py", "net.py", "start.pt"]
    assert fields == {
        "source": "code", "file": "net.py", "class": "Net", "pretrained": "start.pt",
        "arguments": {"width": 8},
    }  # fmt: skip


def test_weights_are_sent_for_a_built_in_model(redkiln, fake, weights):
    done = redkiln("train", "builtin:digits", "--model", "amdnet", "--pretrained", weights)
    assert done.code == 0
    sha256 = hashlib.sha256(weights.read_bytes()).hexdigest()
    assert submitted(fake) == {"name": "amdnet", "pretrained": f"upload:{sha256}"}
    assert sha256 in fake.bundles


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("gone.onnx", "File not found: gone.onnx. --model takes"),
        ("gone.py:Net", "File not found: gone.py. --model takes"),
    ],
)
def test_a_missing_file_is_explained(redkiln, fake, model, text):
    done = redkiln("train", "builtin:digits", "--model", model)
    assert done.code == 2
    assert text in done.err
    assert fake.submitted == []


@pytest.fixture
def mine(tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "net.py").write_text("")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("named", ["{}/weights.pt", "../weights.pt"])
def test_weights_outside_the_sent_folder_are_refused(redkiln, mine, weights, named):
    named = named.format(weights.parent)
    done = redkiln("train", "builtin:digits", "--model", "net.py:Net", "--pretrained", named)
    assert done.code == 2
    assert "Put it there." in done.err


def test_a_path_through_the_parent_folder_names_weights_inside(redkiln, fake, mine):
    (mine / "w.pt").write_bytes(b"PK")
    named = "../mine/w.pt"
    done = redkiln("train", "builtin:digits", "--model", "net.py:Net", "--pretrained", named)
    assert done.code == 0
    assert submitted(fake)["pretrained"] == "w.pt"


def test_a_submitted_spec_sends_its_folder(redkiln, fake, tmp_path):
    (tmp_path / "net.py").write_text("class Net: pass")
    spec = tmp_path / "job.yaml"
    spec.write_text("dataset: flowers\nmodel: {source: code, file: net.py, class: Net}\n")
    assert redkiln("submit", spec).code == 0
    with tarfile.open(fileobj=io.BytesIO(fake.bundles[submitted(fake)["bundle"]])) as archive:
        assert {"net.py", "job.yaml"} <= set(archive.getnames())
