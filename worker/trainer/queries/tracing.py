"""Makes the library's detectors traceable with a batch of any size, and copies of them picklable.

Problem: their code calls `len` of a tensor, which becomes a constant in a trace, and checks values
of tensors, which no operator of ONNX can. The exported file then takes only the traced batch, or
the export fails. Also, ONNX Runtime joins a padding of zeros with the pooling behind it
(`Pad_Fusion`), which then ignores the zeros, so HGNetV2's first layers differ near negative values.
Applies to: D-FINE, DEIMv2 and RT-DETRv2 of transformers 5.23; ONNX Runtime 1.31.
Effect: in the module that defines a network, `len` of a tensor is its first dimension, and the
checks do nothing. Other modules do not change. The pooling is written as maxima of slices.
Evidence: a trained D-FINE differed by 1.5e-2, and by 7e-6 without `Pad_Fusion` (2026-11-27).
Remove when: the library uses `shape[0]`, its checks can be traced, and the joined pooling is right.
"""

import builtins
import sys
from typing import Any

import torch
from torch import nn

CHECK = "torch_compilable_check"
HOOK, INSTALLED = "output_capturing_hook", "_output_capturing_hooks_installed"


def make_traceable(network: Any) -> None:
    """Change the names that the code of a network uses, and its pooling."""
    module: Any = sys.modules[type(network).__module__]
    module.len = _len
    if hasattr(module, CHECK):
        setattr(module, CHECK, _check_nothing)
    for layer in network.modules():
        pool = getattr(layer, "pool", None)
        if isinstance(pool, nn.MaxPool2d) and (pool.kernel_size, pool.stride) == (2, 1):
            layer.pool = PairMaxima()


class PairMaxima(nn.Module):
    """The largest of 2x2 neighbours at each place: `nn.MaxPool2d(2, stride=1)`."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """(B, C, H, W) -> (B, C, H - 1, W - 1)."""
        rows = torch.maximum(values[:, :, :-1], values[:, :, 1:])
        return torch.maximum(rows[..., :-1], rows[..., 1:])


def forget_hooks(network: Any) -> None:
    """Remove hooks that a pass of the library has installed; the next one installs them again.

    They cannot be pickled.
    """
    for module in network.modules():
        for number, hook in list(module._forward_hooks.items()):
            if getattr(hook, "__name__", "") == HOOK:
                del module._forward_hooks[number]
        if hasattr(module, INSTALLED):
            delattr(module, INSTALLED)


def _len(value: Any) -> Any:
    return value.shape[0] if isinstance(value, torch.Tensor) else builtins.len(value)


def _check_nothing(*_: Any, **__: Any) -> None:
    """Accept any values; shapes are checked when a configuration is resolved."""
