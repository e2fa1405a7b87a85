"""Lion, which torch does not have. Source: Chen et al., arXiv:2302.06675, algorithm 2."""

from collections.abc import Iterable

import torch
from torch import nn


class SignMomentum(torch.optim.Optimizer):
    """Moves every weight by `lr` along the sign of a blend of gradient and average.

    Args:
        parameters: Parameters to train.
        lr: Learning rate.
        betas: Weight of the average in the blend, and decay of the average.
        weight_decay: A step shrinks weights by `lr` times this.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: float,
        betas: tuple[float, float],
        weight_decay: float,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all parameters that have gradients."""
        assert closure is None
        for group in self.param_groups:
            weights = [p for p in group["params"] if p.grad is not None]
            if not weights:
                continue
            gradients = [p.grad for p in weights]
            averages = [self._average_of(p) for p in weights]
            blend, decay = group["betas"]
            directions = torch._foreach_lerp(averages, gradients, 1 - blend)
            torch._foreach_sign_(directions)
            torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(weights, directions, alpha=-group["lr"])
            torch._foreach_lerp_(averages, gradients, 1 - decay)

    def _average_of(self, parameter: nn.Parameter) -> torch.Tensor:
        state = self.state[parameter]
        if "exp_avg" not in state:
            state["exp_avg"] = torch.zeros_like(parameter)
        average: torch.Tensor = state["exp_avg"]
        return average
