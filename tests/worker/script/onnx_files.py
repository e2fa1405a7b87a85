"""An ONNX file as scripts leave them."""

import onnx
from onnx import TensorProto, helper


def write_model(path, *, factor=2.0):
    """A file that multiplies rows of three numbers."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])
    factor = helper.make_tensor("f", TensorProto.FLOAT, [1], [factor])
    graph = helper.make_graph([helper.make_node("Mul", ["x", "f"], ["y"])], "g", [x], [y], [factor])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, path)
