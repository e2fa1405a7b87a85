"""Converts an exported file to fp16, and to int8 with ranges that are found while it runs."""

import io as streams
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.quant_utils import TENSOR_NAME_QUANT_SUFFIX
from onnxruntime.transformers.float16 import convert_float_to_float16
from onnxruntime.transformers.onnx_model import OnnxModel

from worker.export.variants.graph import (
    find_preparation,
    list_without_weights,
    load_plain,
    may_scale_channels,
    save_with_metadata,
    shorten_names,
)

LARGEST_WEIGHT = 64
"""Of 7 bits, as ONNX Runtime's quantiser uses them."""
WARNINGS, ERRORS = 2, 3
"""Severities of ONNX Runtime's log."""


def write_fp16(
    source: Path, target: Path, *, metadata: dict[str, str], io: str = "float32"
) -> dict[str, Any]:
    """Write a file with weights and activations in float16.

    The preparation of inputs stays in float32, because raw numbers may exceed float16.

    Args:
        source: The float32 file.
        target: File to write.
        metadata: Metadata of the model.
        io: Type of inputs and outputs, `float32` or `float16`.

    Returns:
        How it was made, for the manifest.
    """
    kept = find_preparation(source)
    model = load_plain(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of each weight too small for float16
        converted = convert_float_to_float16(
            model, keep_io_types=io == "float32", node_block_list=kept
        )
    _feed_raw_inputs(converted)
    _drop_repeated_casts(converted)
    # It puts its casts at the end of the graph.
    sorted_model = OnnxModel(converted)
    sorted_model.topological_sort()
    save_with_metadata(sorted_model.model, target, _with_type(metadata, io))
    return {"float32_nodes": len(kept), "io": io}


def _with_type(metadata: dict[str, str], io: str) -> dict[str, str]:
    """Return metadata whose `preprocessing` says the type of images."""
    known = json.loads(metadata.get("preprocessing", "{}"))
    if "dtype" not in known:
        return metadata
    return metadata | {"preprocessing": json.dumps(known | {"dtype": io})}


def _feed_raw_inputs(model: Any) -> None:
    """Let float32 nodes read the inputs themselves.

    The converter rounds inputs to float16 first and casts them back, once for each of these nodes
    and under the same name, so that large numbers become infinite and the graph is not valid.
    """
    inputs = {value.name for value in model.graph.input}
    casts = [node for node in model.graph.node if node.op_type == "Cast"]
    rounded = {node.output[0]: node.input[0] for node in casts if node.input[0] in inputs}
    restored = {
        node.output[0]: rounded[node.input[0]]
        for node in casts
        if node.input[0] in rounded and node.attribute[0].i == onnx.TensorProto.FLOAT
    }
    nodes = [node for node in model.graph.node if node.output[0] not in restored]
    for node in nodes:
        node.input[:] = [restored.get(name, name) for name in node.input]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _drop_repeated_casts(model: Any) -> None:
    """Keep one cast of each value: the converter adds one for each float32 node that reads it."""
    known: set[str] = set()
    nodes = []
    for node in model.graph.node:
        if node.op_type != "Cast" or node.output[0] not in known:
            nodes.append(node)
        known.update(node.output)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def write_int8_dynamic(
    source: Path, target: Path, *, metadata: dict[str, str], kept: Sequence[str] = ()
) -> dict[str, Any]:
    """Write a file with int8 weights, whose activations are quantised while it runs.

    These activations are unsigned, so weights use 7 of their 8 bits: CPUs without VNNI add two
    products up in 16 bits, and 2 * 255 * 64 fits.

    Args:
        source: The float32 file.
        target: File to write.
        metadata: Metadata of the model.
        kept: Names of further nodes that stay in float32.

    Returns:
        How it was made, for the manifest.
    """
    model = load_plain(source)
    per_channel = may_scale_channels(model)
    # It advises to prepare the file by a program that this one does not need.
    with quiet_quantizer():
        quantize_dynamic(
            model,
            target,
            per_channel=per_channel,
            weight_type=QuantType.QInt8,
            reduce_range=True,
            nodes_to_exclude=[*list_without_weights(model), *kept],
        )
    quantised = load_plain(target)
    _scale_channels(quantised, load_plain(source))
    save_with_metadata(shorten_names(quantised), target, metadata)
    return {"weights": "int8, 7 bits", "activations": "uint8, dynamic", "per_channel": per_channel}


def _scale_channels(quantised: Any, model: Any) -> None:
    """Give each output channel of a convolution's weights its own scale.

    The quantiser gives convolutions one scale for all weights, even if it is asked for one for each
    channel. With folded batch norm, the channels differ so much that most have few steps left.
    Source: ConvInteger in ONNX Runtime 1.31.1.
    """
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    tensors = {tensor.name: tensor for tensor in quantised.graph.initializer}
    for node in quantised.graph.node:
        if node.op_type != "ConvInteger":
            continue
        name = node.input[1].removesuffix(TENSOR_NAME_QUANT_SUFFIX)
        weight = numpy_helper.to_array(weights[name])
        largest = np.abs(weight).max(axis=tuple(range(1, weight.ndim)), keepdims=True)
        scales = (np.where(largest > 0, largest, 1) / LARGEST_WEIGHT).astype(np.float32)
        rounded = np.rint(weight / scales).astype(np.int8)
        tensors[node.input[1]].CopyFrom(numpy_helper.from_array(rounded, node.input[1]))
        # It multiplies outputs (B, C, ...), so the channels come first among the other axes.
        scale = f"{name}_scale"
        tensors[scale].CopyFrom(numpy_helper.from_array(scales[:, 0], scale))


@contextmanager
def quiet_quantizer() -> Iterator[None]:
    """Keep the quantiser's advice and its progress out of the job's log."""
    disabled = logging.root.manager.disable
    onnxruntime.set_default_logger_severity(ERRORS)
    logging.disable(logging.WARNING)
    try:
        with redirect_stdout(streams.StringIO()):
            yield
    finally:
        logging.disable(disabled)
        onnxruntime.set_default_logger_severity(WARNINGS)
