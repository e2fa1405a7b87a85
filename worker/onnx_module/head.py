"""The layer that distinguishes the classes: where it is, and how it is replaced by another one."""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.stored import find_stored

BEHIND = {"Softmax", "LogSoftmax", "Identity", "Flatten", "Cast", "Dropout", "Log"}
"""Operators that may come between the head and the output."""
POOLING = {"GlobalAveragePool", "Squeeze", "Relu", "ReduceMean"}
"""The same behind a head that is a convolution."""


@dataclass(frozen=True)
class Head:
    """The last layer of a classifier.

    Attributes:
        weight: Initialiser or Constant with the matrix or kernel.
        axis: Its axis of the classes.
        bias: Initialiser of the bias; None without one.
        num_classes: Classes of the file.
    """

    weight: str
    axis: int
    bias: str | None
    num_classes: int

    @property
    def names(self) -> set[str]:
        """Names of its initialisers."""
        return {self.weight} if self.bias is None else {self.weight, self.bias}


def find_head(model: onnx.ModelProto) -> Head | None:
    """Return the last layer of a classifier, or None if the graph ends in another way."""
    makers = {name: node for node in model.graph.node for name in node.output}
    tensors = find_stored(model)
    node = makers.get(model.graph.output[0].name)
    bias: str | None = None
    while node is not None:
        if node.op_type in {"Gemm", "MatMul", "Conv"}:
            return _describe(node, bias, tensors, makers)
        if node.op_type == "Add" and bias is None:
            constants = [name for name in node.input if name in tensors]
            if len(constants) != 1:
                return None
            (bias,) = constants
            node = makers.get(next(name for name in node.input if name != bias))
        elif node.op_type in BEHIND | POOLING or (
            node.op_type == "Reshape" and _keeps_classes(node, tensors)
        ):
            node = makers.get(node.input[0])
        else:
            return None
    return None


def replace_head(model: onnx.ModelProto, head: Head, *, num_classes: int, seed: int) -> None:
    """Give the head another number of classes, with random weights.

    Weights are uniform within 1/sqrt(inputs of a class), biases 0. Notes on shapes in the file are
    removed because they name the old number.
    """
    generator = np.random.default_rng(seed)
    for name, tensor in find_stored(model).items():
        if name == head.weight:
            old = numpy_helper.to_array(tensor)
            shape = [num_classes if a == head.axis else n for a, n in enumerate(old.shape)]
            reach = (old.size / head.num_classes) ** -0.5
            new = generator.uniform(-reach, reach, shape).astype(old.dtype)
            tensor.CopyFrom(numpy_helper.from_array(new, tensor.name))
        elif name == head.bias:
            old = numpy_helper.to_array(tensor)
            shape = [num_classes if n == head.num_classes else n for n in old.shape]
            tensor.CopyFrom(numpy_helper.from_array(np.zeros(shape, old.dtype), tensor.name))
    del model.graph.value_info[:]
    for dim in model.graph.output[0].type.tensor_type.shape.dim:
        if dim.dim_value == head.num_classes:
            dim.dim_value = num_classes


def _describe(
    node: onnx.NodeProto,
    bias: str | None,
    tensors: dict[str, onnx.TensorProto],
    makers: dict[str, onnx.NodeProto],
) -> Head | None:
    weight = node.input[1]
    given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    if node.op_type == "Gemm":
        axis = 0 if given.get("transB") else 1
    else:
        axis = 1 if node.op_type == "MatMul" else 0
    maker = makers.get(weight)
    if maker is not None and maker.op_type == "Transpose":
        weight, axis = maker.input[0], 1 - axis
    if weight not in tensors or given.get("group", 1) != 1:
        return None
    shape = list(tensors[weight].dims)
    if node.op_type != "Conv" and len(shape) != 2:
        return None
    if len(node.input) > 2 and node.input[2]:
        bias = node.input[2]
    if bias is not None and bias not in tensors:
        return None
    return Head(weight, axis, bias, shape[axis])


def _keeps_classes(node: onnx.NodeProto, tensors: dict[str, onnx.TensorProto]) -> bool:
    """Return whether a Reshape says no number of classes."""
    shape = tensors.get(node.input[1])
    return shape is not None and all(size <= 1 for size in numpy_helper.to_array(shape).tolist())


def require_head(model: onnx.ModelProto) -> Head:
    """Return the last layer of a classifier.

    Raises:
        OnnxRefused: The graph does not end in a layer that distinguishes classes.
    """
    head = find_head(model)
    if head is None:
        raise OnnxRefused(
            "the layer that distinguishes the classes was not found: the graph must end in Gemm, "
            "MatMul or Conv, followed by nothing but a bias, pooling and softmax"
        )
    return head
