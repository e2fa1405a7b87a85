"""The two parts of a network: the head, which tells the classes apart, and the backbone.

A backbone that is frozen keeps its weights, the statistics of its batch norms and its dropout's
rest; what is trained is the head alone. Frozen parameters have no gradient, so optimisers pass them
over and begin their state when they thaw: which step that is follows from the step's number alone,
so a resumed run is the same.
"""

from collections.abc import Callable

from torch import nn


def find_head(network: nn.Module) -> nn.Module:
    """The layer that tells the classes apart.

    A network either has it as `head`, or says what its `backbone` is, beside which all is head. Of
    one that calls all of itself the backbone it is the last part with weights.
    """
    head = getattr(network, "head", None)
    if isinstance(head, nn.Module):
        return head
    backbone = getattr(network, "backbone", None)
    assert isinstance(backbone, nn.Module), "a network has a head or a backbone"
    inside = {id(module) for module in backbone.modules()}
    inner = getattr(network, "network", network)
    beside = nn.ModuleList(child for child in inner.children() if id(child) not in inside)
    if _has_weights(beside):
        return beside
    return [child for child in backbone.children() if _has_weights(child)][-1]


def _has_weights(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


def build_freezer(
    network: nn.Module, *, epochs: int, say: Callable[[str], None]
) -> "Freezer | None":
    """What freezes a network's backbone in the first epochs; None where there are no such."""
    if not epochs:
        return None
    say(f"in the first {epochs} epochs the model's head alone is trained")
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
        """Bring the network into the state of an epoch, counted from 0; before each of its steps.

        An evaluation in between brings all of a network back to training.
        """
        wanted = epoch < self._epochs
        if wanted != self._is_frozen:
            for parameter in self._parameters:
                parameter.requires_grad_(not wanted)
            self._is_frozen = wanted
            # As they are now: batch norms are replaced where several ranks share the work.
            self._modules = self._list_modules()
            for module in self._modules:
                module.training = True
        if wanted:
            for module in self._modules:
                module.training = False

    def _list_modules(self) -> list[nn.Module]:
        """All that hold no part of the head."""
        head = set(find_head(self._network).modules())
        return [module for module in self._network.modules() if not head & set(module.modules())]
