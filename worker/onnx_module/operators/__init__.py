"""The operators, by family. Each module registers its own when it is imported.

An operator is a function of the `Call` and the inputs as tensors; inputs that are shapes or axes
come as lists of Python numbers. Names and meaning are those of ONNX's operator pages.
"""

from worker.onnx_module.operators import (
    activation,
    arithmetic,
    control,
    convolution,
    creation,
    indexing,
    logic,
    matrix,
    normalisation,
    pooling,
    quantised,
    recurrent,
    reduction,
    resize,
    sequences,
    shape,
    signal,
    sorting,
)

__all__ = [
    "activation",
    "arithmetic",
    "control",
    "convolution",
    "creation",
    "indexing",
    "logic",
    "matrix",
    "normalisation",
    "pooling",
    "quantised",
    "recurrent",
    "reduction",
    "resize",
    "sequences",
    "shape",
    "signal",
    "sorting",
]
