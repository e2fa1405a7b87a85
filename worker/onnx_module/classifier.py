"""An ONNX file as an image classifier: what it takes and returns, and what is changed for that.

The file keeps its graph, names and metadata. Its batch becomes symbolic. Only these are added or
removed, and each is reported: a transposition in front of a graph that wants channels last, given
normalisation in front of the graph, and a softmax at its end, because exported files return logits.

Shapes: B batch, C channels, S side in pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import helper, numpy_helper

from redkiln.onnx_rules.classifier import (
    find_classifier_problem,
    is_channels_last,
    list_inputs,
    read_shape,
)
from worker.onnx_module.ending import Returns, find_returns
from worker.onnx_module.exported_modes import end_training_mode, inline_functions
from worker.onnx_module.head import Head, find_head
from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.stored import find_free_name, find_stored
from worker.onnx_module.unshare import unshare

BATCH = "batch"
MOST_BYTES = 2**31 - 1
NORMALISING = ("redkiln_Sub", "redkiln_Div")
"""Names of the nodes that given normalisation becomes."""


@dataclass
class Classifier:
    """A classifier's file.

    Attributes:
        model: The file's content, changed in place by the functions of this module.
        input: Name of its input.
        output: Name of its output.
        channels: 1 for grey, 3 for colour.
        image_size: Side of its images; None if the graph accepts any.
        returns: Kind of its output.
        head: The layer that distinguishes the classes, if it was found.
        notes: Lines about it in the job's messages.
    """

    model: onnx.ModelProto
    input: str
    output: str
    channels: int
    image_size: int | None
    returns: Returns
    head: Head | None
    notes: list[str] = field(default_factory=list)


def read_classifier(
    path: Path, *, mean: Sequence[float] | None = None, std: Sequence[float] | None = None
) -> Classifier:
    """Read the file of an image classifier.

    Args:
        path: The file.
        mean: Mean of each channel in [0, 1] that its images are normalised with; None if the graph
            takes pixels from 0 to 1.
        std: Standard deviation likewise.

    Raises:
        OnnxRefused: The file is not ONNX, or not a classifier of images.
    """
    model = load_model(path)
    if problem := find_classifier_problem(model):
        raise OnnxRefused(problem)
    num_functions = len(model.functions)
    model = inline_functions(model)
    (entry,) = list_inputs(model)
    shape = read_shape(entry)
    notes = _free_batch(model, entry)
    if num_functions:
        notes.append(f"functions of the file that are now part of its graph: {num_functions}")
    if num_changed := end_training_mode(model):
        notes.append(f"nodes of the file in training mode that now follow the job: {num_changed}")
    is_last = is_channels_last(shape)
    channels, sides = (shape[3], shape[1:3]) if is_last else (shape[1], shape[2:])
    if is_last:
        notes.append(_transpose(model, entry, channels, sides[0]))
    if mean is not None and std is not None:
        notes.append(_normalise(model, entry.name, mean, std, channels=channels))
    if num_copies := unshare(model):
        notes.append(f"{num_copies} equal constants that nodes shared are now separate")
    returns = find_returns(model, notes)
    output = model.graph.output[0].name
    head = find_head(model)
    return Classifier(model, entry.name, output, channels, sides[0] or None, returns, head, notes)


def load_model(path: Path) -> onnx.ModelProto:
    """Read a file without the files that it may refer to.

    Raises:
        OnnxRefused: It is too large, or not ONNX.
    """
    if path.stat().st_size > MOST_BYTES:
        raise OnnxRefused("the file is larger than 2 GB")
    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except DecodeError as error:
        raise OnnxRefused("the file is not ONNX; export the model again") from error
    if not model.graph.node or not model.graph.output:
        raise OnnxRefused("the file has no graph; is it really an ONNX model?")
    return model


def _free_batch(model: onnx.ModelProto, entry: onnx.ValueInfoProto) -> list[str]:
    """Make a fixed batch symbolic, which each Reshape that names it then copies from its input."""
    first = entry.type.tensor_type.shape.dim[0]
    fixed = first.dim_value
    if not fixed:
        return []
    first.dim_param = BATCH
    reshaped = _free_reshapes(model, fixed)
    for value in model.graph.output:
        dims = value.type.tensor_type.shape.dim
        if dims and dims[0].dim_value == fixed:
            dims[0].dim_param = BATCH
    # Notes on the shapes between contain the old batch.
    del model.graph.value_info[:]
    named = f"; these Reshapes now copy it: {', '.join(reshaped)}" if reshaped else ""
    return [f"the file's batch of {fixed} is now symbolic{named}"]


def _free_reshapes(model: onnx.ModelProto, fixed: int) -> list[str]:
    tensors = find_stored(model)
    changed: dict[str, str] = {}
    for node in model.graph.node:
        if node.op_type != "Reshape" or node.input[0] in tensors:
            continue
        tensor = tensors.get(node.input[1])
        if tensor is None:
            continue
        shape = numpy_helper.to_array(tensor)
        if node.input[1] not in changed and shape.size and shape[0] == fixed:
            shape = np.concatenate([np.zeros(1, shape.dtype), shape[1:]])
            tensor.CopyFrom(numpy_helper.from_array(shape, tensor.name))
            changed[node.input[1]] = node.name or node.output[0]
    return list(changed.values())


def _transpose(model: onnx.ModelProto, entry: onnx.ValueInfoProto, channels: int, side: int) -> str:
    _put_in_front(model, entry.name, "Transpose", [], perm=[0, 2, 3, 1])
    dims = entry.type.tensor_type.shape.dim
    for dim, size in zip(list(dims)[1:], (channels, side, side), strict=True):
        dim.Clear()
        if size:
            dim.dim_value = size
    return "the graph expects channels last; it now starts with a Transpose of channels first"


def _normalise(
    model: onnx.ModelProto,
    name: str,
    mean: Sequence[float],
    std: Sequence[float],
    *,
    channels: int,
) -> str:
    if any(node.name in NORMALISING for node in model.graph.node):
        raise OnnxRefused(
            "the file was trained with model.normalization and already contains it (nodes "
            f"{' and '.join(NORMALISING)}); remove model.normalization"
        )
    if not len(mean) == len(std) == channels:
        raise OnnxRefused(
            f"model.normalization has {len(mean)} means and {len(std)} standard deviations, but "
            f"the graph takes {channels} channels; give one of each for every channel"
        )
    # The node that is put in front last runs first.
    for op, values in (("Div", std), ("Sub", mean)):
        tensor = numpy_helper.from_array(
            np.array(values, np.float32).reshape(-1, 1, 1),
            find_free_name(model, f"redkiln_{op.lower()}"),
        )
        model.graph.initializer.append(tensor)
        _put_in_front(model, name, op, [tensor.name])
    return "the given normalisation is now the first two nodes of the graph"


def _put_in_front(
    model: onnx.ModelProto, name: str, op: str, others: list[str], **attributes: Any
) -> None:
    """Put a node between the graph's input and everything that reads it."""
    inner = find_free_name(model, f"{name}_{op.lower()}")
    for node in model.graph.node:
        for place, used in enumerate(node.input):
            if used == name:
                node.input[place] = inner
    new = helper.make_node(op, [name, *others], [inner], name=f"redkiln_{op}", **attributes)
    model.graph.node.insert(0, new)
