"""Copies of constants that only look shared.

Exporters store equal tensors once, so at the beginning of training the scale of one batch norm can
be the variance of another. Each gets its own constant, or training would tie them together.
Matrices that several nodes read stay shared: that is how weights are tied on purpose.
"""

import onnx
from onnx import numpy_helper

from worker.onnx_module.stored import find_free_name, find_stored

STATISTICS = {3, 4}
"""Inputs of BatchNormalization with running statistics."""


def unshare(model: onnx.ModelProto) -> int:
    """Give nodes their own copies of such constants; return the number of copies."""
    tensors = find_stored(model)
    seen: set[str] = set()
    num_copies = 0
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            is_first = name not in seen
            seen.add(name)
            if is_first or name not in tensors or not _is_own(node, place, tensors[name]):
                continue
            num_copies += 1
            copied = onnx.TensorProto()
            copied.CopyFrom(tensors[name])
            copied.name = find_free_name(model, f"{name}_{num_copies}")
            model.graph.initializer.append(copied)
            node.input[place] = copied.name
    return num_copies


def _is_own(node: onnx.NodeProto, place: int, tensor: onnx.TensorProto) -> bool:
    """Return whether a constant should be a node's own: statistics, or a vector of one number."""
    if tensor.data_type not in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE):
        return False
    if node.op_type == "BatchNormalization" and place in STATISTICS:
        return True
    if len(tensor.dims) != 1 or tensor.dims[0] < 2 or place == 0:
        return False
    values = numpy_helper.to_array(tensor)
    return bool((values == values[0]).all())
