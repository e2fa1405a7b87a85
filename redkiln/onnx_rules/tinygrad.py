"""The operators of ONNX that the engine tinygrad runs, and files that need others."""

from collections.abc import Iterable
from typing import Any

from redkiln.onnx_rules.walk import title_of

SUPPORTED = frozenset({
    "Add", "AveragePool", "CastLike", "Clip", "Concat", "Conv", "Div", "Dropout", "Elu", "Erf",
    "Exp", "Expand", "Flatten", "Gather", "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool",
    "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "LogSoftmax", "MatMul", "MaxPool",
    "Mul", "Neg", "Pow", "ReduceMax", "ReduceMean", "ReduceSum", "Relu", "Reshape", "Shape",
    "Sigmoid", "Softmax", "Sqrt", "Squeeze", "Sub", "Tanh", "Transpose", "Unsqueeze",
})  # fmt: skip
"""Operators that run on tensors; those on shapes alone run in Python."""
ON_SHAPES = frozenset({"Cast", "Slice"})
"""Further ones that only run on shapes, in Python."""
AS_MODULES = frozenset({"BatchNormalization"})
"""Further ones that run as modules of torch's, if nothing else uses their weights."""
MOST_NAMED = 10
"""Most nodes that a message names."""


def find_tinygrad_problem(model: Any) -> str | None:
    """Return which nodes of a graph tinygrad does not run; None if it may run all.

    Nodes that only read constants are not counted, because they are computed before training.

    Args:
        model: The file's content, an `onnx.ModelProto`.
    """
    constants = {tensor.name for tensor in model.graph.initializer}
    reached = {value.name for value in model.graph.input} - constants
    own = {(function.domain, function.name) for function in model.functions}
    needed = []
    for node in model.graph.node:
        if reached.isdisjoint(node.input):
            continue
        reached.update(node.output)
        # Functions become part of the graph before training, and are checked then.
        if (node.domain, node.op_type) not in own and node.op_type not in AS_MODULES:
            needed.append((node.op_type, title_of(node)))
    return describe_unsupported(needed)


def describe_unsupported(nodes: Iterable[tuple[str, str]]) -> str | None:
    """Return which nodes tinygrad does not run; None if it runs all.

    Args:
        nodes: Operator and title of each.
    """
    titles = [title for name, title in nodes if name not in SUPPORTED | ON_SHAPES]
    if not titles:
        return None
    noun = "operator" if len(titles) == 1 else "operators"
    more = f" and {len(titles) - MOST_NAMED} more" if len(titles) > MOST_NAMED else ""
    return f"tinygrad does not support the {noun} {', '.join(titles[:MOST_NAMED])}{more}"
