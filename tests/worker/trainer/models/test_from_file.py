"""Weights of a user's file: each format, what is listed if names differ, and what never runs."""

import pickle

import onnx
import pytest
import safetensors.torch
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from redkiln.failure import FailureCode
from tests.worker.trainer.models.own_code import own, pack
from worker.process.failed import TrainingFailed
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job
from worker.trainer.models.from_file import read_weights, take_file


class Net(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.norm = nn.BatchNorm2d(2)
        self.head = nn.Linear(2, classes)


def write_onnx(path, state):
    tensors = [numpy_helper.from_array(value.numpy(), name) for name, value in state.items()]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    node = helper.make_node("Relu", ["x"], ["y"])
    onnx.save(
        helper.make_model(helper.make_graph([node], "g", *([v] for v in values), tensors)), path
    )


WRITERS = {
    "plain.pt": lambda path, state: torch.save(state, path),
    "nested.pt": lambda path, state: torch.save({"epoch": 3, "state_dict": state}, path),
    "parallel.pt": lambda path, state: torch.save(
        {f"module.{name}": value for name, value in state.items()}, path
    ),
    "old.pt": lambda path, state: torch.save(state, path, _use_new_zipfile_serialization=False),
    "net.safetensors": lambda path, state: safetensors.torch.save_file(state, path),
    "net.onnx": write_onnx,
}


@pytest.mark.parametrize("name", WRITERS)
def test_each_format_gives_the_network_its_weights(tmp_path, name):
    theirs, mine = Net(), Net()
    WRITERS[name](tmp_path / name, theirs.state_dict())
    lines = take_file(mine, read_weights(tmp_path / name), head=mine.head, strict=True)
    assert lines == []
    for key, value in theirs.state_dict().items():
        assert torch.equal(mine.state_dict()[key], value)


def test_a_head_for_other_classes_stays_random(tmp_path):
    mine = Net(classes=5)
    own_head = mine.head.weight.clone()
    theirs = Net().state_dict()
    (line,) = take_file(mine, theirs, head=mine.head, strict=True)
    assert "head.weight (3, 2) in the file, (5, 2) in the network" in line
    assert torch.equal(mine.head.weight, own_head)
    assert torch.equal(mine.conv.weight, theirs["conv.weight"])


def test_other_names_are_listed_with_the_nearest_ones():
    theirs = Net().state_dict()
    theirs["convv.weight"] = theirs.pop("conv.weight")
    mine = Net()
    with pytest.raises(TrainingFailed) as caught:
        take_file(mine, theirs, head=mine.head, strict=True)
    message = caught.value.failure.message
    assert "missing from the file: conv.weight (did you mean 'convv.weight')" in message
    assert "not in the network: convv.weight (did you mean 'conv.weight')" in message
    assert caught.value.failure.details["pointer"] == "/model/strict"
    before = mine.conv.weight.clone()
    assert len(take_file(mine, theirs, head=mine.head, strict=False)) == 2
    assert torch.equal(mine.conv.weight, before)
    assert torch.equal(mine.norm.weight, theirs["norm.weight"])


def test_a_file_of_another_network_is_refused_even_if_not_strict():
    mine = Net()
    with pytest.raises(TrainingFailed, match="no weight of the file fits"):
        take_file(mine, {"a": torch.zeros(3)}, head=mine.head, strict=False)


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_that_would_run_code_is_refused(tmp_path, protocol):
    left = tmp_path / "ran"
    torch.save({"a": Trap(str(left))}, tmp_path / "trap.pt", pickle_protocol=protocol)
    (tmp_path / "raw.pt").write_bytes(pickle.dumps(Trap(str(left)), protocol=protocol))
    for name in ("trap.pt", "raw.pt"):
        with pytest.raises(TrainingFailed, match="not a plain state_dict"):
            read_weights(tmp_path / name)
    assert not left.exists()


@pytest.mark.parametrize("content", [b"", b"hello, world", b"PK hello", bytes(8) + b"{"])
def test_a_file_without_weights_is_refused(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(TrainingFailed) as caught:
        read_weights(tmp_path / "x")
    assert caught.value.failure.code is FailureCode.BAD_INPUT


def test_a_built_in_model_starts_from_a_sent_file(make_job, start, tmp_path, events):
    _, first = start(make_job("first"))
    path = tmp_path / "sent.safetensors"
    with torch.no_grad():
        first.model.head.weight.fill_(0.5)
    state = {name: value.contiguous() for name, value in first.model.state_dict().items()}
    safetensors.torch.save_file(state, path)
    model = {"pretrained": f"upload:{'0' * 64}"}
    job_dir = make_job("second", model=model, order={"bundle_path": str(path)})
    _, second = start(job_dir)
    assert torch.equal(second.model.head.weight, first.model.head.weight)
    assert second.spec.model.initial_weights.startswith("sha256 ")
    said = [event["data"]["text"] for event in events(job_dir, "message")]
    assert any(text.startswith("training starts from upload:") for text in said)


@pytest.fixture
def exported(make_job):
    """Trains and exports a built-in model; returns the folder of its files."""

    def make(name):
        job_dir = make_job(name, model={"name": name}, training={"epochs": 1})
        assert run_job(job_dir, StopSignal()) == 0, job_dir.events_path.read_text()[-2000:]
        assert export_job(job_dir) == 0, job_dir.events_path.read_text()[-2000:]
        return job_dir.out_dir

    return make


def order_of(folder, name):
    return {"bundle_path": str(folder / name)}


@pytest.mark.usefixtures("rehearsed")
def test_a_job_starts_from_an_exported_onnx_file_with_all_its_weights(make_job, start, exported):
    folder = exported("amdnet")
    model = {"name": "amdnet", "pretrained": f"upload:{'0' * 64}"}
    job_dir = make_job("second", model=model, order=order_of(folder, "model.onnx"))
    _, second = start(job_dir)
    trained = safetensors.torch.load_file(folder / "checkpoint.safetensors")
    state = second.model.state_dict()
    assert state.keys() == trained.keys()
    assert all(torch.equal(state[name], value) for name, value in trained.items())


@pytest.mark.usefixtures("rehearsed")
def test_merged_batch_norms_are_explained_and_the_checkpoint_has_them(make_job, start, exported):
    folder = exported("mnist-cnn")
    model = {"name": "mnist-cnn", "pretrained": f"upload:{'0' * 64}"}
    with pytest.raises(TrainingFailed, match=r"merged.*checkpoint\.safetensors of the same job"):
        start(make_job("onnx", model=model, order=order_of(folder, "model.onnx")))
    job_dir = make_job("whole", model=model, order=order_of(folder, "checkpoint.safetensors"))
    _, second = start(job_dir)
    trained = safetensors.torch.load_file(folder / "checkpoint.safetensors")
    state = second.model.state_dict()
    assert all(torch.equal(state[name], value) for name, value in trained.items())


def test_an_own_class_starts_from_a_file_of_its_folder(make_job, start, tmp_path, monkeypatch):
    monkeypatch.delitem(__import__("sys").modules, "blocks", raising=False)
    bundle = pack(tmp_path / "sent")
    order = {"bundle_path": str(bundle)}
    _, first = start(make_job("first", model=own(), order=order))
    torch.save(first.model.state_dict(), tmp_path / "sent" / "own-code" / "start.pt")
    model = own(pretrained="start.pt")
    _, second = start(make_job("second", model=model, order=order, training={"seed": 5}))
    assert torch.equal(second.model.last.weight, first.model.last.weight)
