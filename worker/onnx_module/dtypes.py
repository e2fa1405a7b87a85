"""ONNX's element types in torch, and arrays of protobuf messages as tensors."""

from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, numpy_helper

from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.sizes import Sizes

DTYPES: dict[int, torch.dtype] = {
    TensorProto.FLOAT: torch.float32,
    TensorProto.DOUBLE: torch.float64,
    TensorProto.FLOAT16: torch.float16,
    TensorProto.BFLOAT16: torch.bfloat16,
    TensorProto.INT8: torch.int8,
    TensorProto.INT16: torch.int16,
    TensorProto.INT32: torch.int32,
    TensorProto.INT64: torch.int64,
    TensorProto.UINT8: torch.uint8,
    TensorProto.UINT16: torch.uint16,
    TensorProto.UINT32: torch.uint32,
    TensorProto.UINT64: torch.uint64,
    TensorProto.BOOL: torch.bool,
    TensorProto.COMPLEX64: torch.complex64,
    TensorProto.COMPLEX128: torch.complex128,
}
ELEMENT_TYPES = {dtype: number for number, dtype in DTYPES.items()}
MOST_SIZES = 1024
"""Longest int64 constant that is kept on the host, because it may be a shape."""


def dtype_of(number: int) -> torch.dtype:
    """Return torch's type for a number of `TensorProto.DataType`.

    Raises:
        OnnxRefused: torch does not compute with this type.
    """
    if number not in DTYPES:
        name = onnx.TensorProto.DataType.Name(number).lower()
        raise OnnxRefused(f"the element type {name} is not supported; convert it to float32")
    return DTYPES[number]


def read_tensor(proto: onnx.TensorProto) -> torch.Tensor:
    """Return a tensor of a file.

    Raises:
        OnnxRefused: It is stored in another file, or has an unsupported type.
    """
    if proto.data_location == TensorProto.EXTERNAL or proto.external_data:
        raise OnnxRefused(
            f"tensor {proto.name!r} is stored outside of the file; save the model as one file "
            "(onnx.save with save_as_external_data=False)"
        )
    dtype = dtype_of(proto.data_type)
    try:
        array = numpy_helper.to_array(proto)
    except Exception as error:
        raise OnnxRefused(f"tensor {proto.name!r} cannot be read: {error}") from error
    return from_array(array, dtype)


def from_array(array: Any, dtype: torch.dtype) -> torch.Tensor:
    """Return a copy of an array as a tensor; bfloat16 arrays are not numpy's own."""
    array = np.array(array)
    if dtype == torch.bfloat16:
        return torch.from_numpy(array.astype(np.float32)).to(dtype)
    return torch.from_numpy(array)


def read_constant(proto: onnx.TensorProto) -> torch.Tensor | Sizes:
    """Return a tensor of a file; short int64 vectors stay on the host as sizes.

    Raises:
        OnnxRefused: See `read_tensor`.
    """
    return keep_on_host(read_tensor(proto))


def keep_on_host(tensor: torch.Tensor) -> torch.Tensor | Sizes:
    """Return short int64 vectors and scalars as sizes, and other tensors as they are."""
    if tensor.dtype != torch.int64 or tensor.ndim > 1 or tensor.numel() > MOST_SIZES:
        return tensor
    values = tensor.reshape(-1).tolist()
    return Sizes(tuple(values), is_scalar=tensor.ndim == 0)
