"""Gradient checkpointing: activations within a block are computed a second time, not kept.

Models from libraries have their own switch; in other models the blocks are wrapped. In the second
forward pass batch norm must not count the batch again, which torch's own `checkpoint` does not
prevent, so its running statistics are frozen meanwhile. Dropout draws the same values again.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

SWITCHES = ("gradient_checkpointing_enable", "set_grad_checkpointing")
"""Methods of models from transformers and from timm."""


def recompute_activations(model: nn.Module) -> str:
    """Turn on gradient checkpointing for a model and return a description of how."""
    for module in model.modules():
        if hasattr(module, SWITCHES[0]) and getattr(
            module, "supports_gradient_checkpointing", True
        ):
            getattr(module, SWITCHES[0])(gradient_checkpointing_kwargs={"use_reentrant": False})
            return "by the model's own switch"
        if hasattr(module, SWITCHES[1]):
            getattr(module, SWITCHES[1])(True)
            return "by the model's own switch"
    blocks = find_blocks(model)
    for block in blocks:
        block.forward = partial(_recomputed, block, block.forward)
    return f"in {len(blocks)} blocks"


def find_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the parts to recompute one by one: the longest chain of modules with weights.

    A model without such a chain is split into its direct parts.
    """
    chains = [m for m in model.modules() if isinstance(m, nn.Sequential | nn.ModuleList)]
    longest = max(chains, key=_count_composed, default=None)
    if longest is not None and _count_composed(longest) > 1:
        return [part for part in longest if _has_weights(part)]
    return [part for part in model.children() if _has_weights(part)]


def _count_composed(chain: nn.Module) -> int:
    return sum(_has_weights(part) and any(part.children()) for part in chain.children())


def _has_weights(module: nn.Module) -> bool:
    return any(True for _ in module.parameters())


def _recomputed(block: nn.Module, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if not block.training:
        return forward(*args, **kwargs)
    contexts = partial(_contexts, block)
    return checkpoint(forward, *args, use_reentrant=False, context_fn=contexts, **kwargs)


def _contexts(
    block: nn.Module,
) -> tuple[contextlib.AbstractContextManager[None], contextlib.AbstractContextManager[None]]:
    return contextlib.nullcontext(), _still_statistics(block)


@contextlib.contextmanager
def _still_statistics(block: nn.Module) -> Iterator[None]:
    norms = [m for m in block.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    kept = [(norm, norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm in norms:
        norm.momentum, norm.num_batches_tracked = 0.0, None
    try:
        yield
    finally:
        for norm, momentum, count in kept:
            norm.momentum, norm.num_batches_tracked = momentum, count
