"""Makes the library's detectors traceable with a batch of any size, and copies of them picklable.

Problem: their code calls `len` of a tensor, which becomes a constant in a trace, and checks values
of tensors, which no operator of ONNX can. The exported file then takes only the traced batch, or
the export fails.
Applies to: D-FINE, DEIMv2 and RT-DETRv2 of transformers 5.23.
Effect: in the module that defines a network, `len` of a tensor is its first dimension, and the
checks do nothing. Other modules do not change.
Remove when: the library uses `shape[0]`, and its checks can be traced.
"""

import builtins
import sys
from typing import Any

import torch

CHECK = "torch_compilable_check"
HOOK, INSTALLED = "output_capturing_hook", "_output_capturing_hooks_installed"


def make_traceable(network: Any) -> None:
    """Change the names that the code of a network uses."""
    module: Any = sys.modules[type(network).__module__]
    module.len = _len
    if hasattr(module, CHECK):
        setattr(module, CHECK, _check_nothing)


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
