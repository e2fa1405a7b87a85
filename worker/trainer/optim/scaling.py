"""Scaled losses, so that gradients in fp16 do not vanish, and steps that are skipped for overflow.

The loss is multiplied by a large power of two before the backward pass and the gradients are
divided by it before the update. Where a gradient is not finite the update is left out and the scale
halved; after 2000 good steps it is doubled. One such step now and then is how the scale is found;
many in a row mean that no scale helps.

The device is not waited for: the scales lie there until `read_skipped`, and a scale that fell
tells of a step that was left out.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from worker.trainer.optim.optimizer import AnyOptimizer

MAX_SKIPPED_IN_A_ROW = 20
"""The first scale, 65536, is below a tenth after so many halvings: then it is not the scale."""


class LossScaling:
    """Does nothing at all unless it is on.

    Attributes:
        num_skipped: steps that were left out, as far as they were read.
        num_in_a_row: of them, up to the newest.
    """

    def __init__(self, model: nn.Module, optimizer: AnyOptimizer, *, is_on: bool) -> None:
        parameters = [p for p in model.parameters() if p.requires_grad]
        device = parameters[0].device
        self.num_skipped = 0
        self.num_in_a_row = 0
        self._scaler = torch.amp.GradScaler(device.type, enabled=is_on)
        self._optimizer = _as_torch_optimizer(optimizer, parameters)
        self._one = torch.ones((), device=device)
        self._unread: list[torch.Tensor] = []
        self._last_scale = self._scaler.get_scale()

    @property
    def is_on(self) -> bool:
        """Whether losses are scaled."""
        return self._scaler.is_enabled()

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss whose backward pass is to be made."""
        return self._scaler.scale(loss)

    def unscale(self) -> None:
        """Bring the gradients to their own size, for whoever looks at them before the update."""
        self._scaler.unscale_(self._optimizer)

    def step(self) -> None:
        """Update the parameters, unless a gradient is not finite."""
        self._scaler.step(self._optimizer)
        if self.is_on:
            self._scaler.update()
            # By multiplication, for reading the scale would wait for the device.
            self._unread.append(self._scaler.scale(self._one))

    def read_skipped(self, num_steps: int) -> list[bool]:
        """Whether each step since the last time was left out."""
        if not self.is_on:
            return [False] * num_steps
        scales = torch.stack(self._unread).tolist() if self._unread else []
        self._unread.clear()
        skipped = []
        for scale in scales:
            skipped.append(scale < self._last_scale)
            self._last_scale = scale
        return skipped

    def count(self, *, was_skipped: bool) -> bool:
        """Note one step; whether too many were left out in a row."""
        self.num_skipped += was_skipped
        self.num_in_a_row = self.num_in_a_row + 1 if was_skipped else 0
        return self.num_in_a_row >= MAX_SKIPPED_IN_A_ROW

    def state(self) -> dict[str, Any]:
        """All that the next step depends on, once everything is read."""
        return {
            "scaler": self._scaler.state_dict(),
            "num_skipped": self.num_skipped,
            "num_in_a_row": self.num_in_a_row,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        if self.is_on and state["scaler"]:
            self._scaler.load_state_dict(state["scaler"])
        self.num_skipped = state["num_skipped"]
        self.num_in_a_row = state["num_in_a_row"]
        self._last_scale = self._scaler.get_scale()


def _as_torch_optimizer(
    optimizer: AnyOptimizer, parameters: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    """What torch's scaler looks at of an optimiser: its parameters' gradients, and its step."""
    if isinstance(optimizer, torch.optim.Optimizer):
        return optimizer
    return _Scaled(parameters, step=optimizer.step)


class _Scaled(torch.optim.Optimizer):
    """Stands for one that holds other views of the parameters and takes gradients in its step."""

    def __init__(self, parameters: Iterable[nn.Parameter], *, step: Callable[[], None]) -> None:
        super().__init__(parameters, {})
        self._step = step

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the parameters."""
        assert closure is None
        self._step()
