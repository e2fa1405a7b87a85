"""An exponential moving average of a model's weights, which is what is then scored and exported."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class Ema:
    """The average of the weights, and of the buffers beside them, over the steps so far.

    Args:
        model: whose weights are averaged; a copy of it is kept.
        decay: share of the old average that stays at each step.
    """

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        averaging = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        self._average = AveragedModel(model, multi_avg_fn=averaging, use_buffers=True)

    def update(self, model: nn.Module) -> None:
        """Take in the weights after a step; the first ones are taken as they are."""
        self._average.update_parameters(model)

    def tensors(self) -> dict[str, torch.Tensor]:
        """The average, by the names of the model's own state."""
        return dict(self._average.module.state_dict())

    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        """Go on from what `tensors` gave."""
        self._average.module.load_state_dict(tensors)
        self._average.n_averaged.fill_(1)

    @contextmanager
    def applied_to(self, model: nn.Module) -> Iterator[None]:
        """The model has the average while this lasts, and its own weights again afterwards."""
        own = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        model.load_state_dict(self.tensors())
        try:
            yield
        finally:
            model.load_state_dict(own)
