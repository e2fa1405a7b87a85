"""New weights for a graph whose own ones are not wanted."""

import onnx
import torch
from torch import nn

from worker.onnx_module.module import OnnxBatchNorm, OnnxModule
from worker.onnx_module.weights import SLOTS

SCALES = {"BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization"}


def reset_weights(module: OnnxModule, model: onnx.ModelProto) -> None:
    """Draw all weights again, as torch does for new layers.

    Matrices and kernels are uniform within 1/sqrt(n) for n inputs of an output. Biases are 0,
    scales of normalisations 1, slopes of PRelu 0.25, running means 0 and variances 1.
    """
    values = module.weights_by_name()
    with torch.no_grad():
        for node in model.graph.node:
            for place, name in enumerate(node.input):
                value = values.get(name)
                if isinstance(value, nn.Parameter) and place in SLOTS.get(node.op_type, {0, 1}):
                    _draw(node, place, value)
        for norm in module.norms.values():
            assert isinstance(norm, OnnxBatchNorm)
            norm.reset_running_stats()


def _draw(node: onnx.NodeProto, place: int, value: torch.Tensor) -> None:
    if node.op_type in SCALES:
        value.fill_(1.0 if place == 1 else 0.0)
    elif node.op_type == "RMSNormalization":
        value.fill_(1.0)
    elif node.op_type == "PRelu":
        value.fill_(0.25)
    elif value.ndim < 2:
        value.zero_()
    else:
        reach = _count_inputs(node, value) ** -0.5
        value.uniform_(-reach, reach)


def _count_inputs(node: onnx.NodeProto, value: torch.Tensor) -> int:
    is_column = node.op_type == "MatMul" or (
        node.op_type == "Gemm" and not any(one.name == "transB" and one.i for one in node.attribute)
    )
    if is_column:
        return value.shape[-2]
    return value[0].numel()
