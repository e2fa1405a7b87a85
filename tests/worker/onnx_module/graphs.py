"""Small graphs in ONNX's text form, and what ONNX Runtime makes of them."""

import numpy as np
import onnx
import onnx.parser
import onnxruntime
from onnx import numpy_helper

HEAD = '<ir_version: 9, opset_import: ["": 17]> g (float[1,3,8,8] image) => (float[1,10] out)'


def run_theirs(model, x):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def build(text, *, head=HEAD, **tensors):
    """Parse a graph's nodes; a shape stands for a tensor of random numbers."""
    return fill(onnx.parser.parse_model(f"{head} {{{text}}}"), **tensors)


def fill(model, **tensors):
    random = np.random.default_rng(0)
    for name, value in tensors.items():
        array = (
            random.normal(size=value).astype(np.float32) / 4 if isinstance(value, tuple) else value
        )
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model
