"""Writes seed_net.onnx: a small network for 28x28 grey images, with random weights.

    python examples/onnx/make_seed_net.py
    redkiln train mnist.zip --model seed_net.onnx --epochs 5
    python examples/onnx/make_seed_net.py small_net.onnx 4    # 4 instead of 16 filters

It is written with the onnx package alone, as a framework would: a batch of 1, batch norm, dropout,
and a Reshape that names the batch. Redkiln makes the batch symbolic and trains everything.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

GRAPH = """
<ir_version: 9, opset_import: ["": 17]>
seed_net (float[1, 1, 28, 28] pixels) => (float[1, 10] scores) {
  a = Conv <pads = [1, 1, 1, 1]> (pixels, conv1_weight, conv1_bias)
  b = BatchNormalization (a, norm1_scale, norm1_bias, norm1_mean, norm1_var)
  c = Relu (b)
  d = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)
  e = Conv <pads = [1, 1, 1, 1]> (d, conv2_weight, conv2_bias)
  f = BatchNormalization (e, norm2_scale, norm2_bias, norm2_mean, norm2_var)
  g = Relu (f)
  h = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (g)
  i = Reshape (h, flat)
  j = Gemm <transB = 1> (i, hidden_weight, hidden_bias)
  k = Relu (j)
  l = Dropout (k, ratio)
  scores = Gemm <transB = 1> (l, head_weight, head_bias)
}
"""


def main(path: Path, width: int = 16) -> None:
    """Write the network, with `width` filters in its first convolution, to a file."""
    flat, hidden = 2 * width * 7 * 7, 8 * width
    shapes = {
        "conv1": (width, 1, 3, 3),
        "conv2": (2 * width, width, 3, 3),
        "hidden": (hidden, flat),
        "head": (10, hidden),
    }
    model = parser.parse_model(GRAPH)
    random = np.random.default_rng(0)
    tensors = {"flat": np.array([1, flat]), "ratio": np.float32(0.25)}
    for name, shape in shapes.items():
        reach = np.prod(shape[1:]) ** -0.5
        tensors[f"{name}_weight"] = random.uniform(-reach, reach, shape).astype(np.float32)
        tensors[f"{name}_bias"] = np.zeros(shape[0], np.float32)
    for number, channels in ((1, width), (2, 2 * width)):
        for part, value in {"scale": 1, "bias": 0, "mean": 0, "var": 1}.items():
            tensors[f"norm{number}_{part}"] = np.full(channels, value, np.float32)
    for name, array in tensors.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "seed_net.onnx"), *map(int, sys.argv[2:]))
