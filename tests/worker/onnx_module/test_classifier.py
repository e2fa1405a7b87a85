"""ONNX files as classifiers: what their ends say, and what is changed in them."""

import numpy as np
import onnx
import onnx.parser
import pytest
import torch

from tests.worker.onnx_module.graphs import build, fill, run_theirs
from worker.onnx_module.classifier import read_classifier
from worker.onnx_module.head import find_head, replace_head
from worker.onnx_module.module import OnnxModule
from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.reset import reset_weights
from worker.onnx_module.write import write_weights

PIXELS = np.random.default_rng(1).random((2, 3, 8, 8)).astype(np.float32)


@pytest.fixture
def read(tmp_path):
    def save_and_read(model, **options):
        onnx.save(model, tmp_path / "net.onnx")
        return read_classifier(tmp_path / "net.onnx", **options)

    return save_and_read


def names_of(module):
    return {module.names[key] for key, _ in module.named_parameters()}


@pytest.mark.parametrize(
    ("end", "returns"), [("Softmax", "logits"), ("LogSoftmax", "log-probabilities")]
)
def test_the_last_operator_says_what_is_returned(tmp_path, end, returns):
    model = build(f"p = Flatten (image) z = MatMul (p, w) out = {end} (z)", w=(192, 10))
    onnx.save(model, tmp_path / "net.onnx")
    found = read_classifier(tmp_path / "net.onnx")
    assert found.returns == returns
    assert found.head.weight == "w"
    x = np.random.default_rng(1).random((2, 3, 8, 8)).astype(np.float32)
    probabilities = torch.softmax(torch.from_numpy(run_theirs(found.model, x)), 1)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    assert find_head(found.model) == found.head


def test_channels_last_and_given_normalisation_become_nodes_in_front(tmp_path):
    model = build("p = Flatten (image) out = MatMul (p, w)", w=(192, 10))
    for dim, size in zip(
        model.graph.input[0].type.tensor_type.shape.dim, (1, 8, 8, 3), strict=True
    ):
        dim.dim_value = size
    onnx.save(model, tmp_path / "net.onnx")
    found = read_classifier(tmp_path / "net.onnx", mean=[0.5, 0.4, 0.3], std=[0.2, 0.3, 0.4])
    assert (found.channels, found.image_size) == (3, 8)
    pixels = np.random.default_rng(1).random((1, 3, 8, 8)).astype(np.float32)
    mean, std = np.float32([0.5, 0.4, 0.3]), np.float32([0.2, 0.3, 0.4])
    wanted = run_theirs(model, (pixels.transpose(0, 2, 3, 1) - mean) / std)
    np.testing.assert_allclose(run_theirs(found.model, pixels), wanted, rtol=1e-4, atol=1e-5)
    module = OnnxModule(found.model)
    assert {module.names[key] for key, _ in module.named_parameters()} == {"w"}


SCORES = build("p = Flatten (image) out = MatMul (p, w)", w=(192, 10))
ENDS = {
    "s = Softmax (z) out = Identity (s)": "its last Softmax is left out",
    "out = Sigmoid (z)": "its last Sigmoid is left out",
    "m = ReduceMax <axes=[1]> (z) d = Sub (z, m) e = Exp (d) u = ReduceSum (e, one) "
    "out = Div (e, u)": "its softmax of Exp and Div is left out",
    "l = LogSoftmax (z) out = Identity (l)": "the loss is nll",
    "s = Softmax (z) out = Log (s)": "the loss is nll",
}


@pytest.mark.parametrize("end", ENDS)
def test_probabilities_are_left_out_wherever_the_end_makes_them(read, end):
    model = build(f"p = Flatten (image) z = MatMul (p, w) {end}", w=(192, 10), one=np.array([1]))
    found = read(model)
    assert ENDS[end] in found.notes[-1]
    assert found.head.weight == "w"
    ours, scores = run_theirs(found.model, PIXELS[:1]), run_theirs(SCORES, PIXELS[:1])
    if found.returns == "log-probabilities":
        scores = torch.log_softmax(torch.from_numpy(scores), 1)
    np.testing.assert_allclose(ours, scores, atol=1e-5)


def test_a_softmax_of_the_input_is_refused(read):
    head = '<ir_version: 9, opset_import: ["": 17]> g (float[1,3,8,8] x) => (float[1,3,8,8] y)'
    with pytest.raises(OnnxRefused, match="nothing to train"):
        read(build("y = Softmax (x)", head=head))


def test_a_copied_constant_takes_no_name_that_exists(read):
    text = """
      a = Conv <pads=[1,1,1,1]> (image, w, z)  b = Conv <pads=[1,1,1,1]> (a, w2, z)
      c = Conv <pads=[1,1,1,1]> (b, w2, z_1)  p = GlobalAveragePool (c)  f = Flatten (p)
      out = MatMul (f, hw)
    """
    zeros = np.zeros(4, np.float32)
    shapes = {"w": (4, 3, 3, 3), "w2": (4, 4, 3, 3), "z_1": (4,), "hw": (4, 10)}
    model = build(text, z=zeros, **shapes)
    found = read(model)
    stored = [tensor.name for tensor in found.model.graph.initializer]
    assert len(set(stored)) == len(stored)
    np.testing.assert_allclose(
        run_theirs(found.model, PIXELS[:1]), run_theirs(model, PIXELS[:1]), atol=1e-6
    )


def test_new_weights_keep_scales_and_biases_that_are_separate_nodes(read):
    text = """
      c = Conv <pads=[1,1,1,1]> (image, w)  m = Mul (c, scale)  a = Add (m, bias)
      p = GlobalAveragePool (a)  f = Flatten (p)  t = Transpose (hw)  out = MatMul (f, t)
    """
    four = np.linspace(0.5, 2, 4, dtype=np.float32).reshape(4, 1, 1)
    found = read(build(text, w=(4, 3, 3, 3), scale=four, bias=four, hw=(10, 4)))
    module = OnnxModule(found.model)
    reset_weights(module)
    values = module.weights_by_name()
    assert (values["scale"] == 1).all()
    assert (values["bias"] == 0).all()
    assert 0 < values["hw"].abs().max() <= 4**-0.5
    assert module(torch.from_numpy(PIXELS)).abs().max() > 0


FUNCTIONS = """
<ir_version: 9, opset_import: ["": 17, "own": 1]>
g (float[1,3,8,8] image) => (float[1,10] out) {
  p = Flatten (image)  h = own.Lin (p, w, b)  out = own.Lin (h, hw, hb)
}
<domain: "own", opset_import: ["": 17]> Lin (x, w, b) => (y) { m = MatMul (x, w)  y = Add (m, b) }
"""


def test_weights_of_the_files_own_functions_are_trained(read):
    model = onnx.parser.parse_model(FUNCTIONS)
    shapes = {"w": (192, 16), "b": (16,), "hw": (16, 10), "hb": (10,)}
    fill(model, **shapes)
    found = read(model)
    assert names_of(OnnxModule(found.model)) == set(shapes)
    assert found.head.names == {"hw", "hb"}
    np.testing.assert_allclose(
        run_theirs(found.model, PIXELS[:1]), run_theirs(model, PIXELS[:1]), atol=1e-5
    )


def test_a_head_in_a_constant_node_is_found_and_replaced(read):
    numbers = ",".join(["0.1"] * 384)
    text = f"p = Flatten (image)  w = Constant <value=float[192,2]{{{numbers}}}> ()"
    found = read(build(f"{text} out = MatMul (p, w)"))
    assert (found.head.weight, found.head.num_classes) == ("w", 2)
    replace_head(found.model, found.head, num_classes=5, seed=0)
    module = OnnxModule(found.model, head=found.head.names)
    with torch.no_grad():
        module.head["w"].mul_(2)
    ours = module(torch.from_numpy(PIXELS)).detach()
    written = write_weights(found.model, module.weights_by_name())
    assert ours.shape == (2, 5)
    np.testing.assert_allclose(run_theirs(written, PIXELS), ours, atol=1e-5)


def test_numbers_that_a_constant_node_stores_are_written_back(read):
    text = """
      p = Flatten (image)  z = MatMul (p, w)
      b = Constant <value_floats=[0.,1.,2.,3.,4.,5.,6.,7.,8.,9.]> ()  out = Add (z, b)
    """
    found = read(build(text, w=(192, 10)))
    module = OnnxModule(found.model)
    values = module.weights_by_name()
    with torch.no_grad():
        values["b"].add_(1)
    written = write_weights(found.model, values)
    ours = module(torch.from_numpy(PIXELS)).detach()
    np.testing.assert_allclose(run_theirs(written, PIXELS), ours, atol=1e-5)


def test_files_that_were_exported_in_training_mode_are_trained_and_evaluated(read):
    text = """
      c = Conv <pads=[1,1,1,1]> (image, w)
      n, mean, variance = BatchNormalization <training_mode=1> (c, s, z, rm, rv)
      p = GlobalAveragePool (n)  f = Flatten (p)  d = Dropout (f, ratio, yes)  out = MatMul (d, hw)
    """
    ramp = np.linspace(0.5, 2, 4, dtype=np.float32)
    fixed = {"s": ramp, "z": -ramp, "rm": ramp / 9, "rv": ramp * 3, "ratio": np.float32(0.5)}
    found = read(build(text, w=(4, 3, 3, 3), hw=(4, 10), yes=np.array(True), **fixed))
    module = OnnxModule(found.model)
    x = torch.from_numpy(PIXELS)
    assert not torch.equal(module(x), module(x))
    assert len(module.norms) == 1
    module.eval()
    written = write_weights(found.model, module.weights_by_name())
    np.testing.assert_allclose(run_theirs(written, PIXELS), module(x).detach(), atol=1e-5)


def test_a_file_that_normalises_already_is_not_normalised_again(read):
    options = {"mean": [0.5] * 3, "std": [0.2] * 3}
    once = read(SCORES, **options)
    with pytest.raises(OnnxRefused, match=r"remove model\.normalization"):
        read(once.model, **options)


def test_normalisation_needs_a_number_for_each_channel(read):
    with pytest.raises(OnnxRefused, match="the graph takes 3 channels"):
        read(SCORES, mean=[0.5], std=[0.5])


def test_constants_that_are_read_as_numbers_stay_on_the_host(read):
    found = read(
        build(
            "p = Flatten (image) d = Dropout (p, r) out = MatMul (d, w)",
            w=(192, 10),
            r=np.float32(0.25),
        )
    )
    module = OnnxModule(found.model)
    assert not list(module.fixed.buffers())
    module = module.to("meta")
    assert module(torch.empty(2, 3, 8, 8, device="meta")).shape == (2, 10)
