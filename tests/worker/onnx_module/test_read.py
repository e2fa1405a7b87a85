"""Files that are refused, by name and before anything of them runs."""

import time

import onnx
import pytest
import torch
from onnx import TensorProto, helper

from worker.onnx_module.call import State
from worker.onnx_module.read import MOST_NODES, read_graph
from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.run import run_graph

FLOAT = TensorProto.FLOAT


def build(nodes, *, initializer=(), opset=20, functions=(), domains=()):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [2])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        initializer=initializer,
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, functions=functions)


def refuse(model):
    with pytest.raises(OnnxRefused) as caught:
        read_graph(model)
    return str(caught.value)


def test_all_unknown_operators_are_named_at_once():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Fancy", ["a"], ["b"], domain="com.example"),
        helper.make_node("NonMaxSuppression", ["a", "b"], ["y"]),
    ]
    message = refuse(build(nodes, domains=["com.example"]))
    assert "NonMaxSuppression" in message
    assert "com.example:Fancy (1x)" in message


def test_a_cycle_is_refused_with_the_name_that_closes_it():
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    assert "node first reads 'b'" in refuse(build(nodes))


@pytest.mark.parametrize("is_attribute", [False, True])
def test_a_tensor_in_another_file_is_refused(is_attribute):
    tensor = helper.make_tensor("w", FLOAT, [2], [1.0, 2.0])
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../etc/passwd")
    if is_attribute:
        nodes = [helper.make_node("Constant", [], ["y"], value=tensor)]
        message = refuse(build(nodes))
    else:
        message = refuse(build([helper.make_node("Add", ["x", "w"], ["y"])], initializer=[tensor]))
    assert "'w' is stored outside of the file" in message


def test_too_many_nodes_are_refused_quickly():
    node = helper.make_node("Relu", ["x"], ["x2"])
    model = build([helper.make_node("Relu", ["x"], ["y"])])
    content = node.SerializeToString()
    # Field 1 of a graph is its list of nodes.
    repeated = (b"\x0a" + bytes([len(content)]) + content) * 100_000
    model.graph.MergeFromString(repeated)
    started = time.process_time()
    assert f"more than {MOST_NODES:,} nodes" in refuse(model)
    assert time.process_time() - started < 5


def test_a_huge_constant_is_not_made():
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [2**20, 2**20])
    nodes = [helper.make_node("ConstantOfShape", ["shape"], ["y"], name="bomb")]
    graph = read_graph(build(nodes, initializer=[shape]))
    with pytest.raises(OnnxRefused, match=r"bomb.* at most 134,217,728 elements"):
        run_graph(graph, {"x": torch.zeros(2)}, State(torch.device("cpu"), run_graph))


def test_a_function_that_calls_itself_is_refused():
    body = [helper.make_node("Self", ["a"], ["b"], domain="own")]
    imports = [helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "Self", ["a"], ["b"], body, imports)
    nodes = [helper.make_node("Self", ["x"], ["y"], domain="own")]
    message = refuse(build(nodes, functions=[function], domains=["own"]))
    assert "nested deeper" in message


def test_a_newer_operator_set_is_refused():
    model = build([helper.make_node("Relu", ["x"], ["y"])])
    model.opset_import[0].version = 99
    assert "operator set 99 is too new" in refuse(model)


def test_an_element_type_that_torch_lacks_is_named():
    tensor = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT8E5M2, dims=[1])
    tensor.raw_data = b"\x00"
    message = refuse(build([helper.make_node("Identity", ["w"], ["y"])], initializer=[tensor]))
    assert "float8e5m2 is not supported" in message
