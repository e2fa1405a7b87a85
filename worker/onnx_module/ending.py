"""The end of a classifier's graph: what it returns, and the loss that follows from that.

Exported files return logits, so whatever turns logits into probabilities at the end is left out. A
graph that ends in log-probabilities keeps them.
"""

from typing import Literal

import onnx

from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.stored import drop_unread

Returns = Literal["logits", "log-probabilities"]
PASSING = {"Cast", "Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"}
"""Operators behind the last layer that change no value."""
LEFT_OUT = (
    "the graph returned probabilities; {what} is left out, because exported files return logits; "
    "the loss is cross-entropy"
)


def find_returns(model: onnx.ModelProto, notes: list[str]) -> Returns:
    """Return what the graph returns after its probabilities, if any, were left out.

    Args:
        model: The file, which is changed.
        notes: Gets a line about the output and the loss.

    Raises:
        OnnxRefused: The output is an input, or a softmax of an input.
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    last = _find_last(model, makers)
    if last.op_type == "LogSoftmax" or _is_log_of_softmax(last, makers):
        notes.append("the graph returns log-probabilities; the loss is nll")
        return "log-probabilities"
    scores, what = last.input[0], f"its last {last.op_type}"
    if last.op_type not in ("Softmax", "Sigmoid"):
        found = _find_scores(last, makers)
        if found is None:
            notes.append("the graph returns logits; the loss is cross-entropy")
            return "logits"
        scores, what = found, "its softmax of Exp and Div"
    _leave_out(model, last, scores)
    notes.append(LEFT_OUT.format(what=what))
    return "logits"


def _find_last(model: onnx.ModelProto, makers: dict[str, onnx.NodeProto]) -> onnx.NodeProto:
    """Return the last node that changes values."""
    output = model.graph.output[0].name
    node = makers.get(output)
    while node is not None and node.op_type in PASSING and node.input[0] in makers:
        node = makers[node.input[0]]
    if node is None:
        raise OnnxRefused(f"no node makes the output {output!r}")
    return node


def _is_log_of_softmax(node: onnx.NodeProto, makers: dict[str, onnx.NodeProto]) -> bool:
    if node.op_type != "Log":
        return False
    before = makers.get(node.input[0])
    return before is not None and (
        before.op_type == "Softmax" or _find_scores(before, makers) is not None
    )


def _find_scores(node: onnx.NodeProto, makers: dict[str, onnx.NodeProto]) -> str | None:
    """Return what a softmax is taken of that is written as exponentials over their sum."""
    if node.op_type != "Div":
        return None
    top, total = makers.get(node.input[0]), makers.get(node.input[1])
    if top is None or total is None or (top.op_type, total.op_type) != ("Exp", "ReduceSum"):
        return None
    if total.input[0] != node.input[0]:
        return None
    return _before_maximum(top.input[0], makers)


def _before_maximum(scores: str, makers: dict[str, onnx.NodeProto]) -> str:
    """Return the scores from which a softmax subtracts their largest, if it does."""
    less = makers.get(scores)
    largest = makers.get(less.input[1]) if less is not None and less.op_type == "Sub" else None
    if less is None or largest is None or largest.op_type != "ReduceMax":
        return scores
    return str(less.input[0])


def _leave_out(model: onnx.ModelProto, last: onnx.NodeProto, scores: str) -> None:
    """Let everything that reads the last node's output read the scores instead."""
    output = model.graph.output[0].name
    if not any(scores in node.output for node in model.graph.node):
        message = f"the last {last.op_type} reads the graph's input, so there is nothing to train"
        raise OnnxRefused(message)
    removed = last.output[0]
    renamed = {removed: scores} if removed != output else {scores: output}
    model.graph.node.remove(last)
    for node in model.graph.node:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                names[place] = renamed.get(name, name)
    drop_unread(model)
