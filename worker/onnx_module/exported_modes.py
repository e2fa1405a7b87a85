"""Files in the form that the interpreter trains: no functions, and exported for evaluation."""

import onnx
from onnx import inliner

from worker.onnx_module.read import read_graph
from worker.onnx_module.refused import OnnxRefused


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with its own functions written out, so that their weights can be trained.

    Raises:
        OnnxRefused: The graph cannot be read; this also bounds what functions expand to.
    """
    if not model.functions:
        return model
    read_graph(model)
    inlined: onnx.ModelProto = inliner.inline_local_functions(model)
    return inlined


def end_training_mode(model: onnx.ModelProto) -> int:
    """Turn batch norms and dropouts that are fixed in training mode into those of evaluation.

    Returns:
        The number of nodes changed.

    Raises:
        OnnxRefused: Another node reads the statistics of a batch norm's batch.
    """
    read = {name for node in model.graph.node for name in node.input}
    read |= {value.name for value in model.graph.output}
    num_changed = 0
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            num_changed += _end_norm(node, read)
        elif node.op_type == "Dropout" and len(node.input) > 2:
            # Without this input a dropout only drops while the network is trained.
            del node.input[2:]
            num_changed += 1
    return num_changed


def _end_norm(node: onnx.NodeProto, read: set[str]) -> bool:
    mode = next((one for one in node.attribute if one.name == "training_mode"), None)
    if mode is None or not mode.i:
        return False
    if used := [name for name in node.output[1:] if name in read]:
        raise OnnxRefused(
            f"the graph reads {used[0]!r}, the statistics of one batch; export the model for "
            "evaluation (model.eval())"
        )
    node.attribute.remove(mode)
    del node.output[1:]
    return True
