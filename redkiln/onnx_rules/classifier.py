"""Which ONNX graphs are classifiers of images that can be trained.

The service checks this when a job is submitted, the worker when it reads the file. Both pass the
parsed `onnx.ModelProto`, which this module only reads, so it needs no onnx itself.
"""

from collections.abc import Sequence
from typing import Any

from redkiln.onnx_rules.walk import title_of, walk_nodes, walk_tensors

FLOAT = 1
HALF = {10: "float16", 16: "bfloat16"}
TYPES = {2: "uint8", 3: "int8", 6: "int32", 7: "int64", 9: "bool", 11: "double", **HALF}
"""Names of element types, by `TensorProto.DataType`."""
QUANTISED = {
    "ConvInteger",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "MatMulInteger",
    "QLinearConv",
    "QLinearMatMul",
    "QuantizeLinear",
}


def find_classifier_problem(model: Any) -> str | None:
    """Return why a graph cannot be trained as a classifier of images; None if it can.

    Args:
        model: The file's content, an `onnx.ModelProto`.
    """
    return _find_precision(model) or _find_input(model)


def list_inputs(model: Any) -> list[Any]:
    """Return the graph's inputs that are not constants."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in constants]


def read_shape(value: Any) -> list[int]:
    """Return the sizes of a graph's input; 0 for one that varies."""
    return [dim.dim_value for dim in value.type.tensor_type.shape.dim]


def is_channels_last(shape: Sequence[int]) -> bool:
    """Return whether images of this shape have their channels last."""
    return shape[3] in (1, 3) and shape[1] not in (1, 3)


def _find_precision(model: Any) -> str | None:
    """Return why the weights' precision would train badly, or not at all."""
    found = next((node for node, _ in walk_nodes(model) if node.op_type in QUANTISED), None)
    if found is not None:
        return (
            f"the file is quantised by the node {title_of(found)}; train the float32 file and ask "
            "for an int8 variant with export.variants"
        )
    half = next((name for name, one in walk_tensors(model) if one.data_type in HALF), None)
    if half is not None:
        return f"the weight {half!r} is in half precision; convert the model to float32"
    return None


def _find_input(model: Any) -> str | None:
    inputs = list_inputs(model)
    if len(inputs) != 1 or len(model.graph.output) != 1:
        return (
            f"the graph has {len(inputs)} inputs and {len(model.graph.output)} outputs; a "
            "classifier of images has one of each"
        )
    (entry,) = inputs
    tensor = entry.type.tensor_type
    if tensor.elem_type != FLOAT:
        kind = TYPES.get(tensor.elem_type, "of another type")
        return f"the input is {kind}; convert the model to float32"
    shape = read_shape(entry)
    if len(shape) != 4:
        return f"the input {entry.name!r} has {len(shape)} axes; images have 4"
    is_last = is_channels_last(shape)
    channels, sides = (shape[3], shape[1:3]) if is_last else (shape[1], shape[2:])
    if channels not in (1, 3) or len(set(sides)) != 1:
        return (
            f"the input {entry.name!r} has shape {shape}; only square images with 1 or 3 channels "
            "can be trained: (batch, channels, side, side) or (batch, side, side, channels)"
        )
    return None
