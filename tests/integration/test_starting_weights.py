"""What a user uploads is trained on, and further jobs start from what came of it."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import safetensors.torch
import torch

from redkiln.client.bundle import open_bundle

PATIENCE_SECONDS = 300
pytestmark = [pytest.mark.integration, pytest.mark.timeout(3 * PATIENCE_SECONDS)]

AMDNET = Path(__file__).parents[2] / "examples" / "own_module" / "amdnet.py"
CLASSES = ["cross", "frame", "stripes"]
COLOURS = ["red", "green", "blue"]
SIDE = 16
TOO_MANY_EPOCHS = 2_000
ENOUGH_STEPS = 150
WITHOUT_END = {
    "batch_size": 16,
    "optimizer": {"name": "adamw", "lr": 5e-3},
    "schedule": "constant",
}


def draw(label, rng):
    """A grey picture (16, 16) whose class shows, in some noise."""
    pixels = rng.integers(0, 80, (SIDE, SIDE))
    if label == 0:
        pixels[7:9, :] = pixels[:, 7:9] = 220
    elif label == 1:
        pixels[[1, -2], 1:-1] = pixels[1:-1, [1, -2]] = 220
    else:
        pixels[rng.integers(0, 4) :: 4] = 220
    return pixels.astype(np.uint8)


@pytest.fixture
def site(real_site):
    return real_site


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    """An NPZ with 60 training and 12 test pictures of each class, and their names as labels."""
    rng = np.random.default_rng(0)
    content = {}
    for split, count in (("train", 60), ("test", 12)):
        labels = [label for _ in range(count) for label in range(len(CLASSES))]
        content[f"x_{split}"] = np.stack([draw(label, rng) for label in labels])
        content[f"y_{split}"] = np.array([CLASSES[label] for label in labels])
    path = tmp_path_factory.mktemp("arrays") / "shapes.npz"
    np.savez_compressed(path, **content)
    return path


@pytest.fixture(scope="module")
def shapes(shared_real_site, arrays):
    """The uploaded set, and a job that was trained on it."""
    client = shared_real_site.client
    view = client.wait_dataset(client.push_dataset(arrays).id)
    job_id = shared_real_site.submit(
        dataset=view.name,
        model="mnist-cnn",
        epochs=8,
        training={"batch_size": 16, "optimizer": {"name": "adamw", "lr": 5e-3}},
    )
    return view, shared_real_site.wait_for_end(job_id, seconds=PATIENCE_SECONDS)


def weights_of(site, job_id, folder):
    (path,) = site.client.download_all(job_id, folder / job_id, names=["checkpoint.safetensors"])
    return safetensors.torch.load_file(path)


def result_of(site, job_id):
    (event,) = site.events(job_id, "result")
    assert event.data["verified"] is True
    return event.data["metrics"]


def messages(site, job_id):
    return [event.data["text"] for event in site.events(job_id, "message")]


def test_an_onnx_file_is_trained_in_place_through_a_pause_and_a_kill(site, shapes, tmp_path):
    view, before = shapes
    (path,) = site.client.download_all(before.id, tmp_path, names=["model.onnx"])
    sha256 = site.client.push_model(path)
    job_id = site.submit(
        dataset=view.name,
        model={"source": "onnx", "file": sha256, "weights": "reset"},
        epochs=TOO_MANY_EPOCHS,
        training=WITHOUT_END,
    )
    site.pause_kill_and_finish(job_id, step=ENOUGH_STEPS, seconds=PATIENCE_SECONDS)
    assert result_of(site, job_id)["test/accuracy"] > 0.9
    assert "all weights are random again" in messages(site, job_id)
    (written,) = site.client.download_all(job_id, tmp_path / "own", names=["model.onnx"])
    theirs, ours = onnx.load(path), onnx.load(written)
    assert ours.graph.node == theirs.graph.node
    assert ours.opset_import == theirs.opset_import
    names = [tensor.name for tensor in theirs.graph.initializer]
    assert [tensor.name for tensor in ours.graph.initializer] == names


OWN_NET = """
import os
from pathlib import Path

from amdnet import AMDNet

def try_to_leave(path):
    try:
        Path(path).read_bytes()
    except OSError as error:
        return type(error).__name__
    return "read"

SEEN = try_to_leave("@KEY@"), "HF_TOKEN" in os.environ

class Net(AMDNet):
    def __init__(self, num_classes, channels, width=4):
        super().__init__(num_classes, channels, width)
        print("confined:", *SEEN, flush=True)

def preprocess(images):
    return images * 2 - 1
"""


def send_class(site, tmp_path):
    """The model of a spec that trains `Net`, the AMDNet of the examples, sent to the service."""
    folder = tmp_path / "mine"
    folder.mkdir()
    shutil.copy(AMDNET, folder)
    key = next(path for path in site.stack.state_dir.rglob("*.db"))
    (folder / "net.py").write_text(OWN_NET.replace("@KEY@", str(key)))
    sha256 = site.client.push_bundle(open_bundle(folder).package)
    return {"source": "code", "file": "net.py", "class": "Net", "bundle": sha256}


def test_an_own_class_is_trained_confined_through_a_pause_and_a_kill(site, shapes, tmp_path):
    view, _ = shapes
    model = send_class(site, tmp_path)
    job_id = site.submit(
        dataset=view.name,
        model={**model, "preprocess": "preprocess"},
        epochs=TOO_MANY_EPOCHS,
        training=WITHOUT_END,
    )
    site.pause_kill_and_finish(job_id, step=ENOUGH_STEPS, seconds=PATIENCE_SECONDS)
    assert result_of(site, job_id)["test/accuracy"] > 0.9
    seen = {line for line in site.log(job_id).splitlines() if line.startswith("confined:")}
    assert seen == {"confined: PermissionError False"}


def test_uploaded_arrays_are_trained_on_and_become_a_verified_model(site, shapes, tmp_path):
    view, job = shapes
    assert view.classes == CLASSES
    assert view.counts == {"train": dict.fromkeys(CLASSES, 60), "test": dict.fromkeys(CLASSES, 12)}
    assert job.status == "succeeded"
    assert result_of(site, job.id)["test/accuracy"] >= 0.9
    options = job.resolved_spec["model"]["options"]
    assert (options["image_size"], options["channels"]) == (SIDE, 1)
    names = {artifact.name for artifact in site.client.artifacts(job.id)}
    assert {"model.onnx", "report.md", "checkpoint.safetensors"} <= names


def test_a_job_of_other_classes_starts_from_it_with_a_frozen_backbone(site, shapes, tmp_path):
    _, first = shapes
    job_id = site.submit(
        dataset="builtin:digits",
        model=f"job:{first.id}",
        epochs=1,
        training={"freeze_backbone_epochs": 1},
    )
    job = site.wait_for_success(job_id, seconds=PATIENCE_SECONDS)
    assert "test/accuracy" in result_of(site, job_id)
    model = job.resolved_spec["model"]
    assert (model["name"], model["pretrained"]) == ("mnist-cnn", f"job:{first.id}")
    assert model["options"]["image_size"] == SIDE
    mine, theirs = weights_of(site, job_id, tmp_path), weights_of(site, first.id, tmp_path)
    assert mine["head.weight"].shape[0] == 10
    shared = [name for name in theirs if not name.startswith("head.")]
    assert shared
    assert all(torch.equal(mine[name], theirs[name]) for name in shared)
    (text,) = [text for text in messages(site, job_id) if "training starts from" in text]
    assert "new weights: head.bias, head.weight" in text


def test_a_pushed_table_of_texts_becomes_a_verified_model(site, tmp_path):
    rows = [f"{label}\tthe {label} number {n} is here" for n in range(20) for label in COLOURS]
    path = tmp_path / "colours.tsv"
    path.write_text("\n".join(["label\ttext", *rows]) + "\n")
    options = {"task": "text-classification", "target": "label"}
    name = site.client.wait_dataset(site.client.push_dataset(path, **options).id).name
    small = {"dim": 16, "layers": 1, "heads": 2, "vocabulary_size": 300, "max_length": 16}
    training = {"batch_size": 8, "precision": "fp32"}
    job_id = site.submit(dataset=name, model={"options": small}, epochs=1, training=training)
    site.wait_for_success(job_id, seconds=PATIENCE_SECONDS)
    assert "test/accuracy" in result_of(site, job_id)
    assert {"model.onnx", "tokenizer.json"} <= site.artifact_names(job_id)
