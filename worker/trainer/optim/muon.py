"""Muon for every model: torch's own accepts only matrices, so convolutions are passed as matrices.

A convolution's weight (O, I, H, W) is trained as the matrix (O, I*H*W) that shares its memory, in
whichever order of columns needs no copy, because orthogonal updates do not depend on that order.
AdamW trains the last linear layer, embeddings and vectors (biases, norms). In a checkpoint a
momentum has its weight's shape, whatever its memory layout.

Source: Jordan et al., kellerjordan.github.io/posts/muon.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, cast

import torch
from torch import nn

from redkiln.spec.optimizers import Muon


class MuonWithAdamW:
    """Two optimisers behind one interface, as the loop and the checkpoints need it."""

    def __init__(self, model: nn.Module, settings: Muon) -> None:
        matrices, others = split_parameters(model)
        self._views = {parameter: _share_matrix(parameter) for parameter in matrices}
        # Torch cannot build an optimiser without parameters.
        muon = _build_muon(self._views.values(), settings) if matrices else None
        adamw = _build_adamw(others, settings) if others else None
        self._parts = [part for part in (muon, adamw) if part is not None]
        self.state = _States(
            self._views, {} if muon is None else muon.state, {} if adamw is None else adamw.state
        )

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The parameter groups of both."""
        return [group for part in self._parts for group in part.param_groups]

    def has_matrix_of(self, parameter: nn.Parameter) -> bool:
        """Return whether a parameter's state belongs to its matrix."""
        return parameter in self._views

    def step(self) -> None:
        """Update all parameters."""
        for parameter, view in self._views.items():
            view.grad = None if parameter.grad is None else to_matrix(parameter, parameter.grad)
        for part in self._parts:
            part.step()

    def zero_grad(self, *, set_to_none: bool = True) -> None:
        """Clear all gradients."""
        for part in self._parts:
            part.zero_grad(set_to_none=set_to_none)
        for parameter, view in self._views.items():
            view.grad = None
            parameter.grad = None


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Return the parameters that Muon trains, and those that AdamW trains."""
    linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
    embeddings = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    left_out = {id(module.weight) for module in (*linears[-1:], *embeddings)}
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for parameter in model.parameters():
        is_matrix = parameter.ndim >= 2 and id(parameter) not in left_out
        (matrices if is_matrix else others).append(parameter)
    return matrices, others


def to_matrix(parameter: nn.Parameter, tensor: torch.Tensor) -> torch.Tensor:
    """Reshape a tensor of a weight's shape to (O, rest), columns in the weight's memory order."""
    if _is_channels_last(parameter):
        tensor = tensor.permute(0, 2, 3, 1)
    return tensor.reshape(len(tensor), -1)


def from_matrix(parameter: nn.Parameter, matrix: torch.Tensor) -> torch.Tensor:
    """Undo `to_matrix`."""
    if _is_channels_last(parameter):
        shape = parameter.permute(0, 2, 3, 1).shape
        return matrix.reshape(shape).permute(0, 3, 1, 2)
    return matrix.reshape(parameter.shape)


class _States(Mapping[nn.Parameter, Any]):
    """State by the model's own parameters, from whichever optimiser has it."""

    def __init__(
        self,
        views: dict[nn.Parameter, nn.Parameter],
        muon: Mapping[Any, Any],
        adamw: Mapping[Any, Any],
    ) -> None:
        self._views = views
        self._muon = muon
        self._adamw = adamw

    def __getitem__(self, parameter: nn.Parameter) -> Any:
        view = self._views.get(parameter)
        return self._adamw[parameter] if view is None else self._muon[view]

    def __iter__(self) -> Iterator[nn.Parameter]:
        return chain(self._views, cast("Iterable[nn.Parameter]", self._adamw))

    def __len__(self) -> int:
        return len(self._views) + len(self._adamw)


def _build_muon(matrices: Iterable[nn.Parameter], settings: Muon) -> torch.optim.Optimizer:
    return torch.optim.Muon(
        list(matrices),
        lr=settings.lr,
        momentum=settings.momentum,
        nesterov=settings.nesterov,
        weight_decay=settings.weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )


def _build_adamw(others: Iterable[nn.Parameter], settings: Muon) -> torch.optim.Optimizer:
    return torch.optim.AdamW(others, lr=settings.lr, weight_decay=settings.weight_decay, fused=True)


def _share_matrix(parameter: nn.Parameter) -> nn.Parameter:
    matrix = nn.Parameter(to_matrix(parameter, parameter.detach()))
    assert matrix.data_ptr() == parameter.data_ptr(), "the matrix must share its weight's memory"
    return matrix


def _is_channels_last(parameter: nn.Parameter) -> bool:
    is_last = parameter.ndim == 4 and parameter.is_contiguous(memory_format=torch.channels_last)
    return is_last and not parameter.is_contiguous()
