"""An exponential moving average of a model's weights, which is then scored and exported.

Weights change little from one step to the next, so the average follows every few steps, with as
much of its old value left as if it had followed each of them.

Source: `--model-ema-steps` of PyTorch's reference scripts for vision, whose default is 32.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import torch
from torch import nn

MOST_STEPS = 8
"""Most steps that the average follows at once."""
LEAST_KEPT = 0.9
"""Least share of the old average that remains, so that an average over few steps stays one."""


class Ema:
    """The average of the weights and buffers over the steps so far.

    Which steps it follows depends only on the number of the step, so a resumed run computes the
    same average. torch's own `AveragedModel` keeps its count in a tensor, so the host would wait
    for the device at each step to read it.

    Args:
        model: Model whose weights are averaged; a copy of it is kept. Its parameters must stay the
            same objects.
        decay: Share of the old average that remains after each step.

    Attributes:
        interval: Steps that the average follows at once.
    """

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        self._average = deepcopy(model)
        self._averages = _group_by_type(_tensors_of(self._average))
        # Listing them takes as long as averaging them.
        self._parameters = list(model.parameters())
        self._holders = [_find_holder(model, path) for path, _ in model.named_buffers()]
        self._decay = decay
        self.interval = choose_interval(decay)

    def update(self, step: int, *, place: int, is_last: bool) -> None:
        """Follow the weights after a step, if its turn has come.

        The average is the weights themselves in the first `interval` steps. Counts are copied.

        Args:
            step: Number of the step in the training, from 0.
            place: Its place in its epoch, from 0.
            is_last: Whether the epoch or the training ends with it, and the average is scored.
        """
        if step < self.interval:
            self._blend(kept=0.0)
            return
        since = min(place % self.interval, step - self.interval) + 1
        if is_last or since == self.interval:
            self._blend(kept=self._decay**since)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the average, by the names in the model's state dict."""
        return dict(self._average.state_dict())

    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        """Restore the result of `tensors`."""
        self._average.load_state_dict(tensors)

    @contextmanager
    def applied_to(self, model: nn.Module) -> Iterator[None]:
        """Give the model the average inside the block, and its own weights back afterwards."""
        own = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        model.load_state_dict(self.tensors())
        try:
            yield
        finally:
            model.load_state_dict(own)

    @torch.no_grad()
    def _blend(self, *, kept: float) -> None:
        buffers = [getattr(module, name) for module, name in self._holders]
        current = _group_by_type([*self._parameters, *buffers])
        for dtype, averages in self._averages.items():
            if kept and dtype.is_floating_point:
                torch._foreach_lerp_(averages, current[dtype], 1 - kept)
            else:
                torch._foreach_copy_(averages, current[dtype])


def choose_interval(decay: float) -> int:
    """Return how many steps an average with this decay follows at once."""
    return max(1, min(MOST_STEPS, int(math.log(LEAST_KEPT) / math.log(decay))))


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
