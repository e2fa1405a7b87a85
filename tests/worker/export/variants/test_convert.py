import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from redkiln.predict.session import open_session, run_session
from tests.redkiln.predict.models import save, value_info
from worker.export.variants import static
from worker.export.variants.convert import write_fp16, write_int8_dynamic
from worker.export.variants.graph import (
    NETWORK,
    QUANTISING,
    SCOPES,
    find_preparation,
    list_without_weights,
    load_plain,
    may_scale_channels,
    shorten_names,
)
from worker.export.variants.static import write_int8_static

RNG = np.random.default_rng(0)
METADATA = {"task": "image-classification", "classes": '["a", "b", "c", "d"]'}
WEIGHTS = {
    "thousand": np.array(1000, np.float32),
    "first": RNG.normal(size=(16, 32)).astype(np.float32),
    "second": RNG.normal(size=(32, 4)).astype(np.float32),
}


@pytest.fixture
def source(tmp_path):
    """A perceptron on inputs that it divides by 1000 itself, with products of activations."""
    nodes = [
        helper.make_node("Div", ["images", "thousand"], ["small"], name="prepare"),
        helper.make_node("Neg", ["images"], ["unused"], name="prepare_too"),
        helper.make_node("MatMul", ["small", "first"], ["hidden"], name="layer_1"),
        helper.make_node("Relu", ["hidden"], ["positive"], name="relu"),
        helper.make_node("MatMul", ["positive", "second"], ["scores"], name="layer_2"),
        helper.make_node("Transpose", ["scores"], ["turned"], name="turn"),
        helper.make_node("MatMul", ["scores", "turned"], ["alike"], name="attention"),
        helper.make_node("MatMul", ["alike", "scores"], ["mixed"], name="attend"),
        helper.make_node("Identity", ["scores"], ["logits"], name="end"),
    ]
    path = save(
        tmp_path,
        nodes,
        [value_info("images", TensorProto.FLOAT, 16)],
        value_info("logits", TensorProto.FLOAT, 4),
        weights=WEIGHTS,
        task="x",
        classes=[],
        preprocessing={},
    )
    model = onnx.load(path)
    for node in model.graph.node:
        scope = "['', 'div']" if node.name.startswith("prepare") else "['', 'network', 'layer']"
        node.metadata_props.add(key=SCOPES, value=scope)
    # The exporter also records shapes of weights that a quantised graph replaces.
    model.graph.value_info.append(value_info("first", TensorProto.FLOAT, 32))
    onnx.save(model, path)
    return path


def samples(num=64):
    return {"images": (2000 * RNG.normal(size=(num, 16))).astype(np.float32)}


def run(path, feed):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(["logits"], feed)[0]


def check_alike(source, target, *, error):
    feed = samples()
    before, after = run(source, feed), run(target, feed)
    assert after.dtype == np.float32
    assert 0 < np.abs(after - before).max() < error * np.abs(before).max()
    assert {p.key: p.value for p in onnx.load(target).metadata_props} == METADATA


def kinds(path):
    return {node.name: node.op_type for node in onnx.load(path).graph.node}


def test_fp16_keeps_inputs_outputs_and_preparation_in_float32(source, tmp_path):
    target = tmp_path / "fp16.onnx"
    details = write_fp16(source, target, metadata=METADATA)
    assert details == {"float32_nodes": 2, "io": "float32"}
    check_alike(source, target, error=0.01)
    graph = onnx.load(target).graph
    assert graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT
    kept = {tensor.name: tensor.data_type for tensor in graph.initializer}
    assert kept["first"] == TensorProto.FLOAT16
    # 100,000 exceeds float16: preparing it in float16 would give infinity.
    huge = {"images": np.full((1, 16), 1e5, np.float32)}
    np.testing.assert_allclose(run(target, huge), run(source, huge), rtol=0.01)


def test_fp16_has_inputs_and_outputs_in_float16_if_asked(source, tmp_path):
    target = tmp_path / "fp16.onnx"
    facts = {**METADATA, "preprocessing": json.dumps({"dtype": "float32", "output": "logits"})}
    details = write_fp16(source, target, metadata=facts, io="float16")
    assert details == {"float32_nodes": 2, "io": "float16"}
    session = open_session(target)
    ends = [*session.get_inputs(), *session.get_outputs()]
    assert {value.type for value in ends} == {"tensor(float16)"}
    found = json.loads(session.get_modelmeta().custom_metadata_map["preprocessing"])
    assert found["dtype"] == "float16"
    feed = {"images": np.random.default_rng(1).normal(size=(8, 16)).astype(np.float32)}
    outputs = run_session(session, feed)
    assert outputs.dtype == np.float32
    expected = run(source, feed)
    assert 0 < np.abs(outputs - expected).max() < 0.01 * np.abs(expected).max()


def test_dynamic_int8_quantises_products_with_weights_only(source, tmp_path):
    target = tmp_path / "dynamic.onnx"
    details = write_int8_dynamic(source, target, metadata=METADATA)
    assert details == {
        "weights": "int8, 7 bits",
        "activations": "uint8, dynamic",
        "per_channel": True,
    }
    check_alike(source, target, error=0.05)
    assert "MatMulInteger" in kinds(target).values()
    assert kinds(target)["attention"] == "MatMul"


@pytest.mark.parametrize("group", [1, 4])
def test_dynamic_int8_gives_each_channel_of_a_convolution_its_own_scale(tmp_path, group):
    """As folded batch norm leaves them: one channel is a thousand times as large as another."""
    weight = RNG.normal(size=(4, 4 // group, 3, 3)).astype(np.float32)
    weight *= np.array([1000, 1, 1, 0], np.float32).reshape(4, 1, 1, 1)
    node = helper.make_node("Conv", ["images", "weight", "bias"], ["logits"], "conv", group=group)
    source = save(
        tmp_path,
        [node],
        [value_info("images", TensorProto.FLOAT, 4, 8, 8)],
        value_info("logits", TensorProto.FLOAT, 4, 6, 6),
        weights={"weight": weight, "bias": np.array([0, 1, 2, 3], np.float32)},
        task="x",
        classes=[],
        preprocessing={},
    )
    target = tmp_path / "dynamic.onnx"
    assert write_int8_dynamic(source, target, metadata=METADATA)["per_channel"]
    assert "ConvInteger" in kinds(target).values()
    feed = {"images": RNG.random((5, 4, 8, 8)).astype(np.float32)}
    before, after = run(source, feed), run(target, feed)
    for channel in range(4):
        scale = np.abs(before[:, channel]).max()
        assert np.abs(after - before)[:, channel].max() < 0.03 * scale
    (found,) = (
        numpy_helper.to_array(tensor)
        for tensor in onnx.load(target).graph.initializer
        if tensor.data_type == TensorProto.INT8 and len(tensor.dims) == 4
    )
    assert [np.abs(one).max() for one in found] == [64, 64, 64, 0]


def list_int8_weights(path):
    return [
        numpy_helper.to_array(tensor).astype(int)
        for tensor in onnx.load(path).graph.initializer
        if tensor.data_type == TensorProto.INT8 and len(tensor.dims) == 2
    ]


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_int8_cannot_saturate_where_sums_have_16_bits(source, tmp_path, kind):
    """Without VNNI, two products of a uint8 and an int8 are added up in 16 bits."""
    target = tmp_path / f"{kind}.onnx"
    if kind == "dynamic":
        write_int8_dynamic(source, target, metadata=METADATA)
    else:
        write_int8_static(
            source, target, metadata=METADATA, batches=[samples(16)], rate=lambda _path: (0.0, 0.0),
            max_drop=0.01, on_file=lambda: None,
        )  # fmt: skip
    weights = list_int8_weights(target)
    assert len(weights) == 2
    for weight in weights:
        assert np.abs(weight).max() > 32
        pairs = weight[0::2] + weight[1::2]
        assert 255 * pairs.max() <= 32767
        assert 255 * pairs.min() >= -32768


def test_static_int8_has_unsigned_activations_and_signed_weights_of_7_bits(source, tmp_path):
    target = tmp_path / "static.onnx"
    rates = []

    def rate(path):
        feed = samples()
        rates.append(float(np.abs(run(path, feed) - run(source, feed)).mean()))
        return 0.0, rates[-1]

    details = write_int8_static(
        source, target, metadata=METADATA, batches=[samples(16)] * 3, rate=rate, max_drop=0.01,
        on_file=lambda: None,
    )  # fmt: skip
    check_alike(source, target, error=0.3)
    assert details["calibration_samples"] == 48
    assert details["float32_layers"] == []
    assert details["calibration"] == ("min-max", "percentile", "entropy")[rates.index(min(rates))]
    graph = onnx.load(target).graph
    kinds_of = {tensor.name: tensor.data_type for tensor in graph.initializer}
    quantising = [node for node in graph.node if node.op_type in QUANTISING]
    of_weights = {node.input[2] for node in quantising if node.input[0] in kinds_of}
    of_activations = {node.input[2] for node in quantising} - of_weights
    assert {kinds_of[name] for name in of_activations} == {TensorProto.UINT8}
    assert {kinds_of[name] for name in of_weights} <= {TensorProto.INT8, TensorProto.INT32}
    weights = [numpy_helper.to_array(one) for one in graph.initializer if len(one.dims) > 1]
    assert weights
    assert all(one.dtype == np.int8 and abs(one).max() <= 64 for one in weights)
    assert max(map(len, kinds_of)) == 1
    assert {"layer_1", "layer_2"} <= {node.name for node in graph.node}
    assert not list(tmp_path.glob(".int8-*"))


def test_the_most_sensitive_layers_stay_in_float32_when_too_much_is_lost(source, tmp_path):
    target = tmp_path / "static.onnx"

    def rate(path):
        """The second layer alone spoils the model."""
        is_kept = not any(
            node.op_type == "DequantizeLinear" and node.input[0].startswith("second")
            for node in onnx.load(path).graph.node
        )
        return (0.0, 0.1) if is_kept else (0.2, 0.9)

    details = write_int8_static(
        source, target, metadata=METADATA, batches=[samples(16)], rate=rate, max_drop=0.01,
        on_file=lambda: None,
    )  # fmt: skip
    assert details["float32_layers"] == ["layer_2"]
    assert details["validation_drop"] == 0.0


def test_a_large_sensitive_layer_is_found_after_the_small_ones(source, tmp_path, monkeypatch):
    monkeypatch.setattr(static, "MEASURED", 1)  # layer_2 is smaller and comes first

    def rate(path):
        """The first layer alone, which has more weights, spoils the model."""
        is_kept = not any(
            node.op_type == "DequantizeLinear" and node.input[0].startswith("first")
            for node in onnx.load(path).graph.node
        )
        return (0.0, 0.1) if is_kept else (0.2, 0.9)

    details = write_int8_static(
        source, tmp_path / "s.onnx", metadata=METADATA, batches=[samples(16)], rate=rate,
        max_drop=0.01, on_file=lambda: None,
    )  # fmt: skip
    assert details["float32_layers"] == ["layer_1"]


def test_a_loss_that_no_layer_explains_is_reported_as_it_is(source, tmp_path):
    details = write_int8_static(
        source, tmp_path / "s.onnx", metadata=METADATA, batches=[samples(16)],
        rate=lambda _path: (0.3, 0.5), max_drop=0.01, on_file=lambda: None,
    )  # fmt: skip
    assert details["validation_drop"] == 0.3


def test_parts_of_a_graph_are_recognised(source):
    model = load_plain(source)
    assert find_preparation(source) == ["prepare", "prepare_too"]
    assert list_without_weights(model) == ["attention", "attend"]
    assert may_scale_channels(model)
    assert not model.graph.value_info


def test_names_are_shortened_except_those_of_inputs_outputs_and_layers(tmp_path):
    nodes = [helper.make_node("Relu", [f"value_{n}"], [f"value_{n + 1}"]) for n in range(30)]
    nodes[0].input[0], nodes[-1].output[0] = "b", "logits"
    ends = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, [2])] for n in ("b", "logits")]
    model = helper.make_model(helper.make_graph(nodes, "chain", *ends), ir_version=10)
    model = shorten_names(model)
    onnx.checker.check_model(model, full_check=True)
    names = [node.output[0] for node in model.graph.node]
    assert (names[:3], names[-4:]) == (["a", "c", "d"], ["bb", "bc", "bd", "logits"])
    branch = helper.make_graph([helper.make_node("Relu", ["value_1"], ["out"])], "b", [], [])
    model.graph.node.append(helper.make_node("If", ["c"], ["out"], then_branch=branch))
    before = model.SerializeToString()
    assert shorten_names(model).SerializeToString() == before


def test_weights_of_several_members_have_one_scale(tmp_path):
    node = helper.make_node("MatMul", ["images", "members"], ["logits"], name="members")
    path = save(
        tmp_path,
        [node],
        [value_info("images", TensorProto.FLOAT, 1, 8)],
        value_info("logits", TensorProto.FLOAT, 1, 4),
        weights={"members": RNG.normal(size=(1, 8, 4)).astype(np.float32)},
        task="x",
        classes=[],
        preprocessing={},
    )
    assert not may_scale_channels(load_plain(path))
    details = write_int8_dynamic(path, tmp_path / "d.onnx", metadata=METADATA)
    assert details["per_channel"] is False
    feed = {"images": RNG.normal(size=(5, 1, 8)).astype(np.float32)}
    np.testing.assert_allclose(run(tmp_path / "d.onnx", feed), run(path, feed), atol=0.2)


def test_fp16_casts_a_value_once_for_all_float32_nodes_that_read_it(tmp_path):
    def node(kind, inputs, output, scope):
        made = helper.make_node(kind, inputs, [output], name=output)
        made.metadata_props.add(key=SCOPES, value=scope)
        return made

    nodes = [
        node("Relu", ["x"], "y", NETWORK),
        node("Neg", ["y"], "a", ""),
        node("Abs", ["y"], "b", ""),
        node("Add", ["a", "b"], "logits", NETWORK),
    ]
    x, z = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3])
        for name in ("x", "logits")
    )
    graph = helper.make_graph(nodes, "shared", [x], [z])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    source, target = tmp_path / "source.onnx", tmp_path / "target.onnx"
    onnx.save(model, source)
    write_fp16(source, target, metadata={})
    onnx.checker.check_model(onnx.load(target), full_check=True)
    feed = {"x": np.array([[-1, 0, 2]], np.float32)}
    assert run(target, feed) == pytest.approx(run(source, feed))
