"""Loss scaling, so that fp16 gradients do not vanish, and skipped steps on overflow.

The loss is multiplied by a large power of two before the backward pass, and the gradients are
divided by it before the update. If a gradient is not finite, the update is skipped and the scale
halved; after 2000 good steps it is doubled. An occasional skipped step is how the scale is found;
many in a row mean that no scale helps.

The host does not wait for the device: the scales stay there until `read_skipped`, and a scale that
fell shows that a step was skipped.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import nn

from worker.trainer.optim.optimizer import AnyOptimizer

MAX_SKIPPED_IN_A_ROW = 20
"""The initial scale of 65536 is below a tenth after this many halvings, so it is not the cause."""


class LossScaling:
    """Scales losses and skips steps; does nothing if it is off.

    Attributes:
        num_skipped: Skipped steps read so far.
        num_in_a_row: Skipped steps in a row up to the newest.
    """

    def __init__(self, model: nn.Module, optimizer: AnyOptimizer, *, is_on: bool) -> None:
        parameters = [p for p in model.parameters() if p.requires_grad]
        device = parameters[0].device
        self.num_skipped = 0
        self.num_in_a_row = 0
        self._scaler = torch.amp.GradScaler(device.type, enabled=is_on)
        self._optimizer = _as_torch_optimizer(optimizer, parameters)
        self._is_fused = bool(self._optimizer.defaults.get("fused"))
        self._one = torch.ones((), device=device)
        self._unread: list[torch.Tensor] = []
        self._last_scale = self._scaler.get_scale()

    @property
    def is_on(self) -> bool:
        """Whether losses are scaled."""
        return self._scaler.is_enabled()

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """Return the loss to run the backward pass from."""
        return self._scaler.scale(loss)

    def clip(self, parameters: Sequence[nn.Parameter], *, most: float) -> None:
        """Limit the norm of all gradients in the next update.

        A fused optimiser divides the gradients while it updates, which saves a pass over them.
        """
        if self.is_on or not self._is_fused:
            self._scaler.unscale_(self._optimizer)
            nn.utils.clip_grad_norm_(parameters, most)
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        # Half the time of `nn.utils.get_total_norm`, which also finds their devices and types.
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        self._optimizer.grad_scale = (norm / most).clamp_(min=1.0)  # type: ignore[attr-defined]

    def step(self) -> None:
        """Update the parameters, unless a gradient is not finite."""
        self._scaler.step(self._optimizer)
        if self._is_fused and not self.is_on:
            self._optimizer.grad_scale = None  # type: ignore[attr-defined]
        if self.is_on:
            self._scaler.update()
            # By multiplication, because reading the scale would wait for the device.
            self._unread.append(self._scaler.scale(self._one))

    def read_skipped(self, num_steps: int) -> list[bool]:
        """Return for each step since the last call whether it was skipped."""
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
        """Count one step and return whether too many were skipped in a row."""
        self.num_skipped += was_skipped
        self.num_in_a_row = self.num_in_a_row + 1 if was_skipped else 0
        return self.num_in_a_row >= MAX_SKIPPED_IN_A_ROW

    def state(self) -> dict[str, Any]:
        """Return everything that the next step depends on; skipped steps must have been read."""
        return {
            "scaler": self._scaler.state_dict(),
            "num_skipped": self.num_skipped,
            "num_in_a_row": self.num_in_a_row,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the result of `state`."""
        if self.is_on and state["scaler"]:
            self._scaler.load_state_dict(state["scaler"])
        self.num_skipped = state["num_skipped"]
        self.num_in_a_row = state["num_in_a_row"]
        self._last_scale = self._scaler.get_scale()


def _as_torch_optimizer(
    optimizer: AnyOptimizer, parameters: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    """Return what torch's scaler needs of an optimiser: its parameters' gradients, and its step."""
    if isinstance(optimizer, torch.optim.Optimizer):
        return optimizer
    return _Scaled(parameters, step=optimizer.step)


class _Scaled(torch.optim.Optimizer):
    """Represents an optimiser that has other views of the parameters than the model."""

    def __init__(self, parameters: Iterable[nn.Parameter], *, step: Callable[[], None]) -> None:
        super().__init__(parameters, {})
        self._step = step

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the parameters."""
        assert closure is None
        self._step()
