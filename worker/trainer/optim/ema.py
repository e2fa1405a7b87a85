"""An exponential moving average of a model's weights, which is what is then scored and exported."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import torch
from torch import nn
from torch.optim.swa_utils import get_ema_multi_avg_fn


class Ema:
    """The average of the weights, and of the buffers beside them, over the steps so far.

    torch's own `AveragedModel` keeps its count in a tensor, and the host waits for the device at
    each step to read it.

    Args:
        model: whose weights are averaged; a copy of it is kept.
        decay: share of the old average that stays at each step.
    """

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        self._average = deepcopy(model)
        self._blend = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        self._has_begun = False

    def update(self, model: nn.Module) -> None:
        """Take in the weights after a step; the first ones are taken as they are."""
        mine, news = (_group_by_type(_tensors_of(one)) for one in (self._average, model))
        for dtype, averages in mine.items():
            if self._has_begun:
                self._blend(averages, news[dtype], None)
            else:
                torch._foreach_copy_(averages, news[dtype])
        self._has_begun = True

    def tensors(self) -> dict[str, torch.Tensor]:
        """The average, by the names of the model's own state."""
        return dict(self._average.state_dict())

    def load(self, tensors: dict[str, torch.Tensor], *, has_begun: bool) -> None:
        """Go on from what `tensors` gave, before or after the first step."""
        self._average.load_state_dict(tensors)
        self._has_begun = has_begun

    @contextmanager
    def applied_to(self, model: nn.Module) -> Iterator[None]:
        """The model has the average while this lasts, and its own weights again afterwards."""
        own = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        model.load_state_dict(self.tensors())
        try:
            yield
        finally:
            model.load_state_dict(own)


def _tensors_of(model: nn.Module) -> list[torch.Tensor]:
    return [tensor.detach() for tensor in (*model.parameters(), *model.buffers())]


def _group_by_type(tensors: list[torch.Tensor]) -> dict[torch.dtype, list[torch.Tensor]]:
    groups: dict[torch.dtype, list[torch.Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.dtype, []).append(tensor)
    return groups
