"""ONNX graphs as networks: what is trained, and the file that results."""

import copy

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from tests.worker.onnx_module.graphs import build, run_theirs
from worker.onnx_module.classifier import read_classifier
from worker.onnx_module.head import replace_head
from worker.onnx_module.module import OnnxBatchNorm, OnnxModule
from worker.onnx_module.operators.convolution import CONVOLUTIONS
from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.reset import reset_weights
from worker.onnx_module.write import write_weights

SMALL = """
  a = Sub (image, mean)
  b = Conv <pads=[1,1,1,1]> (a, w, cb)
  n = BatchNormalization (b, scale, shift, rm, rv)
  r = Relu (n)
  p = GlobalAveragePool (r)
  f = Reshape (p, shape)
  d = Dropout (f)
  out = Gemm <transB=1> (d, hw, hb)
"""


def small():
    return build(
        SMALL,
        mean=np.full((1, 3, 1, 1), 0.5, np.float32),
        w=(4, 3, 3, 3),
        cb=(4,),
        scale=np.ones(4, np.float32),
        shift=(4,),
        rm=(4,),
        rv=np.ones(4, np.float32),
        shape=np.array([1, 4]),
        hw=(10, 4),
        hb=(10,),
    )


@pytest.fixture
def path(tmp_path):
    onnx.save(small(), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_weights_are_trained_and_statistics_and_preprocessing_are_not(path):
    found = read_classifier(path)
    module = OnnxModule(found.model, head=found.head.names)
    trained = {module.names[key] for key, _ in module.named_parameters()}
    assert trained == {"w", "cb", "scale", "shift", "hw", "hb"}
    assert {module.names[f"head.{key}"] for key in module.head} == {"hw", "hb"}


def test_batch_norm_and_dropout_get_their_training_behaviour_back(path):
    module = OnnxModule(read_classifier(path).model)
    x = torch.rand(4, 3, 8, 8)
    before = copy.deepcopy(module.state_dict())
    assert not torch.equal(module(x), module(x))
    norm = next(m for m in module.modules() if isinstance(m, OnnxBatchNorm))
    assert norm.num_batches_tracked == 2
    assert not torch.equal(norm.running_mean, before["norms.norm_0.running_mean"])
    module.eval()
    assert torch.equal(module(x), module(x))


def test_a_fixed_batch_becomes_symbolic(path):
    found = read_classifier(path)
    assert any("Reshapes now copy it: f" in note for note in found.notes)
    x = np.random.default_rng(1).random((5, 3, 8, 8)).astype(np.float32)
    singles = np.concatenate([run_theirs(small(), one[None]) for one in x])
    module = OnnxModule(found.model).eval()
    np.testing.assert_allclose(module(torch.from_numpy(x)).detach(), singles, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run_theirs(found.model, x), singles, rtol=1e-4, atol=1e-5)


def test_trained_weights_go_back_into_the_same_graph(path):
    found = read_classifier(path)
    module = OnnxModule(found.model)
    x, labels = torch.rand(8, 3, 8, 8), torch.arange(8)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    nn.functional.cross_entropy(module(x), labels).backward()
    optimizer.step()
    written = write_weights(found.model, module.weights_by_name())
    assert written.graph.node == found.model.graph.node
    assert [t.name for t in written.graph.initializer] == [
        t.name for t in found.model.graph.initializer
    ]
    module.eval()
    ours = module(x).detach().numpy()
    np.testing.assert_allclose(run_theirs(written, x.numpy()), ours, rtol=1e-4, atol=1e-5)
    assert np.abs(run_theirs(found.model, x.numpy()) - ours).max() > 1e-3


def test_a_head_for_other_classes_replaces_the_old_one(path):
    found = read_classifier(path)
    replace_head(found.model, found.head, num_classes=3, seed=0)
    module = OnnxModule(found.model).eval()
    x = torch.rand(2, 3, 8, 8)
    assert module(x).shape == (2, 3)
    np.testing.assert_allclose(run_theirs(found.model, x.numpy()), module(x).detach(), atol=1e-5)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x00" * 100])
def test_a_file_that_is_not_onnx_is_refused(tmp_path, content):
    (tmp_path / "net.onnx").write_bytes(content)
    with pytest.raises(OnnxRefused):
        read_classifier(tmp_path / "net.onnx")


def test_constants_that_only_look_shared_are_trained_separately(tmp_path):
    text = """
      b = Conv <pads=[1,1,1,1]> (image, w)
      n = BatchNormalization (b, ones, zeros, zeros, ones)
      p = GlobalAveragePool (n)  f = Flatten (p)  out = MatMul (f, hw)
    """
    ones, zeros = np.ones(4, np.float32), np.zeros(4, np.float32)
    onnx.save(
        build(text, w=(4, 3, 3, 3), ones=ones, zeros=zeros, hw=(4, 10)), tmp_path / "net.onnx"
    )
    found = read_classifier(tmp_path / "net.onnx")
    module = OnnxModule(found.model)
    assert len(module.norms) == 1
    onnx.checker.check_model(found.model)
    written = write_weights(found.model, module.weights_by_name())
    x = np.random.default_rng(0).random((2, 3, 8, 8)).astype(np.float32)
    np.testing.assert_allclose(
        run_theirs(written, x), module.eval()(torch.from_numpy(x)).detach(), atol=1e-5
    )


def test_a_copied_network_computes_the_same(path):
    module = OnnxModule(read_classifier(path).model).eval()
    x = torch.rand(2, 3, 8, 8)
    assert torch.equal(copy.deepcopy(module)(x), module(x))


def test_weights_can_be_drawn_again(path):
    found = read_classifier(path)
    module = OnnxModule(found.model)
    torch.manual_seed(0)
    reset_weights(module)
    values = module.weights_by_name()
    assert values["w"].abs().max() <= 27**-0.5
    assert values["hw"].abs().max() <= 4**-0.5
    assert (values["cb"] == 0).all()
    assert (values["scale"] == 1).all()
    assert (values["rm"] == 0).all()


def test_a_failure_of_the_gpu_is_not_a_fault_of_the_file(path, monkeypatch):
    module = OnnxModule(read_classifier(path).model)

    def fail(*_args, **_kwargs):
        raise error

    monkeypatch.setitem(CONVOLUTIONS, 2, fail)
    for error in (
        torch.AcceleratorError("HIP error: unknown error"),
        RuntimeError("miopenStatusUnknownError"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ):
        with pytest.raises(type(error)) as caught:
            module(torch.rand(2, 3, 8, 8))
        assert caught.value is error
