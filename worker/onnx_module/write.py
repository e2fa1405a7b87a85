"""Puts trained weights back into the file that they came from."""

from collections.abc import Mapping

import onnx
import torch
from onnx import numpy_helper

from worker.onnx_module.dtypes import dtype_of
from worker.onnx_module.stored import find_stored


def write_weights(model: onnx.ModelProto, weights: Mapping[str, torch.Tensor]) -> onnx.ModelProto:
    """Return the same model with other values in its initialisers and constants.

    Args:
        model: The model as it was read.
        weights: New values by the names of the file; shapes and types stay.
    """
    written = onnx.ModelProto()
    written.CopyFrom(model)
    for name, tensor in find_stored(written).items():
        if name in weights:
            _replace(tensor, weights[name], name=tensor.name)
    for node in written.graph.node:
        if node.op_type == "Constant" and node.output[0] in weights:
            _replace_numbers(node, weights[node.output[0]])
    return written


def _replace_numbers(node: onnx.NodeProto, value: torch.Tensor) -> None:
    """Replace the numbers of a Constant that stores them without a tensor."""
    for attribute in node.attribute:
        if attribute.name == "value_floats":
            attribute.floats[:] = value.tolist()
        elif attribute.name == "value_float":
            attribute.f = value.item()


def _replace(tensor: onnx.TensorProto, value: torch.Tensor, *, name: str) -> None:
    kept = value.detach().cpu().to(dtype_of(tensor.data_type))
    if kept.dtype == torch.bfloat16:
        new = onnx.helper.make_tensor(
            name, tensor.data_type, kept.shape, kept.view(torch.int16).numpy().tobytes(), raw=True
        )
    else:
        new = numpy_helper.from_array(kept.numpy(), name)
    tensor.CopyFrom(new)
