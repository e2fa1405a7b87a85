"""An exponential moving average of a model's weights, which is then scored and exported."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import torch
from torch import nn
from torch.optim.swa_utils import get_ema_multi_avg_fn


class Ema:
    """The average of the weights and buffers over the steps so far.

    torch's own `AveragedModel` keeps its count in a tensor, so the host would wait for the device
    at each step to read it.

    Args:
        model: Model whose weights are averaged; a copy of it is kept. Its parameters must stay the
            same objects.
        decay: Share of the old average that remains at each step.
    """

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        self._average = deepcopy(model)
        self._averages = _group_by_type(_tensors_of(self._average))
        # Listing them takes as long as averaging them.
        self._parameters = list(model.parameters())
        self._holders = [_find_holder(model, path) for path, _ in model.named_buffers()]
        self._blend = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        self._has_begun = False

    @torch.no_grad()
    def update(self) -> None:
        """Blend in the weights after a step; the first ones are copied, as are all counts."""
        buffers = [getattr(module, name) for module, name in self._holders]
        current = _group_by_type([*self._parameters, *buffers])
        for dtype, averages in self._averages.items():
            if self._has_begun and dtype.is_floating_point:
                self._blend(averages, current[dtype], None)
            else:
                torch._foreach_copy_(averages, current[dtype])
        self._has_begun = True

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the average, by the names in the model's state dict."""
        return dict(self._average.state_dict())

    def load(self, tensors: dict[str, torch.Tensor], *, has_begun: bool) -> None:
        """Restore the result of `tensors`, from before or after the first step."""
        self._average.load_state_dict(tensors)
        self._has_begun = has_begun

    @contextmanager
    def applied_to(self, model: nn.Module) -> Iterator[None]:
        """Give the model the average inside the block, and its own weights back afterwards."""
        own = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        model.load_state_dict(self.tensors())
        try:
            yield
        finally:
            model.load_state_dict(own)


def _find_holder(model: nn.Module, path: str) -> tuple[nn.Module, str]:
    """Return the module of a buffer and its name there; another layout replaces the buffer."""
    parent, _, name = path.rpartition(".")
    return model.get_submodule(parent), name


def _tensors_of(model: nn.Module) -> list[torch.Tensor]:
    return [tensor.detach() for tensor in (*model.parameters(), *model.buffers())]


def _group_by_type(tensors: list[torch.Tensor]) -> dict[torch.dtype, list[torch.Tensor]]:
    groups: dict[torch.dtype, list[torch.Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.dtype, []).append(tensor)
    return groups
