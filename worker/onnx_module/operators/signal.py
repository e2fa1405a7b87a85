"""Fourier transforms. A signal's last axis is its real part, and its imaginary part if any."""

from typing import Any

import torch

from worker.onnx_module.call import Call
from worker.onnx_module.registry import operator
from worker.onnx_module.sizes import count_elements

Tensor = torch.Tensor


@operator("DFT", since=17, sizes=(1,))
def _dft_attribute(call: Call, x: Tensor, length: list[int] | None = None) -> Any:
    return _transform(call, x, length, call.get("axis", 1))


@operator("DFT", since=20, sizes=(1, 2))
def _dft(
    call: Call, x: Tensor, length: list[int] | None = None, axis: list[int] | None = None
) -> Any:
    return _transform(call, x, length, axis[0] if axis else -2)


def _transform(call: Call, x: Tensor, length: list[int] | None, axis: int) -> Any:
    number = None if length is None else length[0]
    count_elements([number or 1])
    axis %= x.ndim
    is_inverse, is_onesided = bool(call.get("inverse", 0)), bool(call.get("onesided", 0))
    values = _complex(x)
    if is_inverse and is_onesided:
        return torch.fft.irfft(values, number, dim=axis).unsqueeze(-1)
    if is_inverse:
        return torch.view_as_real(torch.fft.ifft(values, number, dim=axis))
    if is_onesided:
        return torch.view_as_real(torch.fft.rfft(values.real, number, dim=axis))
    return torch.view_as_real(torch.fft.fft(values, number, dim=axis))


@operator("STFT", since=17, sizes=(1, 3))
def _stft(
    call: Call,
    x: Tensor,
    step: list[int],
    window: Tensor | None = None,
    length: list[int] | None = None,
) -> Tensor:
    if length is not None:
        size = length[0]
    elif window is not None:
        size = window.shape[0]
    else:
        raise ValueError("neither a window nor frame_length is given")
    frames = _complex(x).unfold(1, size, step[0])
    if window is not None:
        frames = frames * window
    if call.get("onesided", 1):
        return torch.view_as_real(torch.fft.rfft(frames.real))
    return torch.view_as_real(torch.fft.fft(frames))


def _complex(x: Tensor) -> Tensor:
    """(..., 1 or 2) -> (...) complex."""
    if x.shape[-1] == 2:
        return torch.view_as_complex(x.contiguous())
    return torch.complex(x[..., 0], torch.zeros_like(x[..., 0]))
