"""Joins a finished file with a graph in front of it, and with one that turns outputs into answers.

Shapes: B batch, K classes.
"""

from collections.abc import Callable
from pathlib import Path

import onnx
import onnx.compose
import onnx.parser

TOP = 5
"""Classes that a file returns at most."""
ANSWERS = ("probabilities", "top_scores", "top_classes")
"""Names of the outputs that are added to those of a classifier."""
ML = "ai.onnx.ml"


def embed(
    path: Path,
    prepare: Callable[[onnx.ModelProto], onnx.ModelProto],
    *,
    joins: dict[str, str],
    output: str,
    num_classes: int,
    has_labels: bool,
) -> None:
    """Rewrite a file so that it prepares raw inputs itself; its metadata stay.

    Args:
        path: The file.
        prepare: Returns the graph in front, with the operator sets of the given model.
        joins: The file's inputs by the outputs of the graph in front.
        output: The file's output.
        num_classes: K; 0 for a regression, which gets no further outputs.
        has_labels: Whether the output has probabilities already, for several labels.

    Raises:
        Exception: An operator of the graph in front is not in the file's operator set.
    """
    model = onnx.load(path)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    inner = onnx.compose.add_prefix(model, "model/", rename_outputs=False)
    pairs = [(outer, f"model/{name}") for outer, name in joins.items()]
    whole = onnx.compose.merge_models(prepare(model), inner, io_map=pairs)
    if num_classes:
        after = parse_graph(_write_answers(num_classes, has_labels=has_labels), like=model)
        after = onnx.compose.add_prefix(after, "answer/", rename_outputs=False)
        names = [output, *(value.name for value in after.graph.output)]
        pairs = [(output, "answer/scores")]
        whole = onnx.compose.merge_models(whole, after, io_map=pairs, outputs=names)
    whole.producer_name, whole.producer_version = model.producer_name, model.producer_version
    onnx.helper.set_model_props(whole, metadata)
    onnx.checker.check_model(whole, full_check=True)
    onnx.save_model(whole, path)


def parse_graph(graph: str, *, like: onnx.ModelProto | None) -> onnx.ModelProto:
    """Parse a graph in ONNX's text form as a model with the operator set of another one."""
    opset, ir_version = 18, 9
    if like is not None:
        opset = next(entry.version for entry in like.opset_import if entry.domain == "")
        ir_version = like.ir_version
    head = f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>'
    model: onnx.ModelProto = onnx.parser.parse_model(f"{head}\n{graph}")
    onnx.checker.check_model(model, full_check=True)
    return model


def _write_answers(num_classes: int, *, has_labels: bool) -> str:
    """Return a graph of outputs (B, K) to probabilities and the most probable classes."""
    num, probabilities = min(TOP, num_classes), ANSWERS[0]
    tops = f"float[batch, {num}] top_scores, int64[batch, {num}] top_classes"
    softmax, given = f"{probabilities} = Softmax <axis = -1> (scores)", probabilities
    extra = f"float[batch, {num_classes}] {probabilities}, "
    if has_labels:
        softmax, given, extra = "", "scores", ""
    return f"""answer (float[batch, {num_classes}] scores) => ({extra}{tops}) {{
        {softmax}
        most = Constant <value_ints = [{num}]> ()
        top_scores, top_classes = TopK <axis = -1> ({given}, most)
    }}"""
