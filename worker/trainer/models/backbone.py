"""The two parts of a network: the head, which distinguishes the classes, and the backbone.

A frozen backbone keeps its weights and the statistics of its batch norms, and its dropout is off;
only the head is trained. Frozen parameters have no gradient, so optimisers skip them and create
their state when they thaw. The step number alone decides when that is, so a resumed run computes
the same.
"""

from collections.abc import Callable

from torch import nn


def find_head(network: nn.Module) -> nn.Module:
    """Return the layers that distinguish the classes.

    A network either has a `head`, or a `backbone` outside of which everything is the head. If it
    calls all of itself the backbone, or is a user's own and has neither, the head is its last part
    with weights.
    """
    head = getattr(network, "head", None)
    if isinstance(head, nn.Module):
        return head
    backbone = getattr(network, "backbone", None)
    if not isinstance(backbone, nn.Module):
        return next(
            (child for child in reversed(list(network.children())) if _has_weights(child)), network
        )
    inside = {id(module) for module in backbone.modules()}
    inner = getattr(network, "network", network)
    outside = nn.ModuleList(child for child in inner.children() if id(child) not in inside)
    if _has_weights(outside):
        return outside
    return [child for child in backbone.children() if _has_weights(child)][-1]


def _has_weights(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


def build_freezer(
    network: nn.Module, *, epochs: int, say: Callable[[str], None]
) -> "Freezer | None":
    """Build the freezer of a network's backbone in the first epochs; None for 0 epochs."""
    if not epochs:
        return None
    say(f"for the first {epochs} epochs only the model's head is trained")
    return Freezer(network, epochs=epochs)


class Freezer:
    """Freezes a network's backbone in the first epochs."""

    def __init__(self, network: nn.Module, *, epochs: int) -> None:
        head = find_head(network)
        trained = {id(parameter) for parameter in head.parameters()}
        self._network = network
        self._epochs = epochs
        self._is_frozen = False
        self._parameters = [
            parameter
            for parameter in network.parameters()
            if id(parameter) not in trained and parameter.requires_grad
        ]
        self._modules: list[nn.Module] = []

    def apply(self, epoch: int) -> None:
        """Freeze or thaw the backbone for an epoch, counted from 0; call it before each step.

        It is needed at each step because an evaluation puts the whole network back into training
        mode.
        """
        wanted = epoch < self._epochs
        if wanted != self._is_frozen:
            for parameter in self._parameters:
                parameter.requires_grad_(not wanted)
            self._is_frozen = wanted
            # List the current modules: batch norms are replaced when several ranks share the work.
            self._modules = self._list_modules()
            for module in self._modules:
                module.training = True
        if wanted:
            for module in self._modules:
                module.training = False

    def _list_modules(self) -> list[nn.Module]:
        """Return all modules that contain no part of the head."""
        head = set(find_head(self._network).modules())
        return [module for module in self._network.modules() if not head & set(module.modules())]
