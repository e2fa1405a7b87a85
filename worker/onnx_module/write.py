"""Puts trained weights back into the file that they came from."""

from collections.abc import Mapping

import onnx
import torch
from onnx import numpy_helper

from worker.onnx_module.dtypes import dtype_of


def write_weights(model: onnx.ModelProto, weights: Mapping[str, torch.Tensor]) -> onnx.ModelProto:
    """Return the same model with other values in its initialisers and constants.

    Args:
        model: The model as it was read.
        weights: New values by the names of the file; shapes and types stay.
    """
    written = onnx.ModelProto()
    written.CopyFrom(model)
    for tensor in written.graph.initializer:
        if tensor.name in weights:
            _replace(tensor, weights[tensor.name], name=tensor.name)
    for node in written.graph.node:
        if node.op_type == "Constant" and node.output[0] in weights:
            for attribute in node.attribute:
                if attribute.name == "value":
                    _replace(attribute.t, weights[node.output[0]], name=attribute.t.name)
    return written


def _replace(tensor: onnx.TensorProto, value: torch.Tensor, *, name: str) -> None:
    kept = value.detach().cpu().to(dtype_of(tensor.data_type))
    if kept.dtype == torch.bfloat16:
        new = onnx.helper.make_tensor(
            name, tensor.data_type, kept.shape, kept.view(torch.int16).numpy().tobytes(), raw=True
        )
    else:
        new = numpy_helper.from_array(kept.numpy(), name)
    tensor.CopyFrom(new)
