"""Muon for every model: torch's own takes matrices alone, so convolutions are given to it as such.

A convolution's weight (O, I, H, W) is trained as the matrix (O, I*H*W) that shares its memory, in
whichever order of columns that needs no copy: orthogonal updates do not depend on that order. The
last linear layer, embeddings and vectors (biases, norms) are AdamW's.

Source: Jordan et al., kellerjordan.github.io/posts/muon.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, cast

import torch
from torch import nn

from redkiln.spec import Muon


class MuonWithAdamW:
    """Two optimisers that act as one; what the loop and the checkpoints need of it."""

    def __init__(self, model: nn.Module, settings: Muon) -> None:
        matrices, others = split_parameters(model)
        self._views = {parameter: _as_matrix(parameter) for parameter in matrices}
        self._muon = torch.optim.Muon(
            list(self._views.values()),
            lr=settings.lr,
            momentum=settings.momentum,
            nesterov=settings.nesterov,
            weight_decay=settings.weight_decay,
            adjust_lr_fn="match_rms_adamw",
        )
        self._adamw = torch.optim.AdamW(
            others, lr=settings.lr, weight_decay=settings.weight_decay, fused=True
        )
        self.state = _States(self._views, self._muon, self._adamw)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of both."""
        return [*self._muon.param_groups, *self._adamw.param_groups]

    def step(self) -> None:
        """Update all parameters."""
        for parameter, view in self._views.items():
            view.grad = None if parameter.grad is None else _order(parameter, parameter.grad)
        self._muon.step()  # type: ignore[no-untyped-call]
        self._adamw.step()

    def zero_grad(self, *, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        self._adamw.zero_grad(set_to_none=set_to_none)
        for parameter, view in self._views.items():
            view.grad = None
            parameter.grad = None


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The parameters that Muon trains, and those that AdamW does."""
    linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
    embeddings = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    left_out = {id(module.weight) for module in (*linears[-1:], *embeddings)}
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for parameter in model.parameters():
        is_matrix = parameter.ndim >= 2 and id(parameter) not in left_out
        (matrices if is_matrix else others).append(parameter)
    return matrices, others


class _States(Mapping[nn.Parameter, Any]):
    """State by the model's own parameters, whichever optimiser has it."""

    def __init__(
        self,
        views: dict[nn.Parameter, nn.Parameter],
        muon: torch.optim.Optimizer,
        adamw: torch.optim.Optimizer,
    ) -> None:
        self._views = views
        self._muon = muon
        self._adamw = adamw

    def __getitem__(self, parameter: nn.Parameter) -> Any:
        view = self._views.get(parameter)
        return self._adamw.state[parameter] if view is None else self._muon.state[view]

    def __iter__(self) -> Iterator[nn.Parameter]:
        return chain(self._views, cast("Iterable[nn.Parameter]", self._adamw.state))

    def __len__(self) -> int:
        return len(self._views) + len(self._adamw.state)


def _as_matrix(parameter: nn.Parameter) -> nn.Parameter:
    matrix = nn.Parameter(_order(parameter, parameter.detach()))
    assert matrix.data_ptr() == parameter.data_ptr(), "the matrix shares its weight's memory"
    return matrix


def _order(parameter: nn.Parameter, tensor: torch.Tensor) -> torch.Tensor:
    """A weight or its gradient as (O, rest), columns as the weight lies in memory."""
    is_last = parameter.ndim == 4 and parameter.is_contiguous(memory_format=torch.channels_last)
    if is_last and not parameter.is_contiguous():
        tensor = tensor.permute(0, 2, 3, 1)
    return tensor.reshape(len(tensor), -1)
