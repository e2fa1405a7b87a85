"""The comparison before training: what rounding explains, and what it does not."""

import copy

import pytest
import torch
from torch import nn

from tests.worker.engines.numpy_engine import Graph, Numpy
from worker.engines.first_steps import compare_first_steps
from worker.engines.network import EngineNetwork
from worker.process.failed import TrainingFailed


class Noisy(Numpy):
    """Adds a part of the largest gradient to one gradient."""

    def __init__(self, network, *, part, place):
        super().__init__(network)
        self.part, self.place = part, place

    def backward(self, kept, gradient):
        found = super().backward(kept, gradient)
        largest = max(abs(one).max() for one in found)
        found[self.place] = found[self.place] + self.part * largest
        return found


def compute_loss(outputs, targets):
    return nn.functional.cross_entropy(outputs - outputs.mean(0), targets)


def compare(*, part, place):
    """Gradients of batch norm, and of a linear layer whose bias changes no difference of outputs.

    Their order is scale, shift, weight, bias; the loss only reads differences between samples.
    """
    torch.manual_seed(0)
    network = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))
    engine = Noisy(network, part=part, place=place)
    forward = EngineNetwork(network, Graph(network), engine, size=4)
    batch = torch.rand(8, 3), torch.arange(8) % 2
    before = copy.deepcopy(network.state_dict())
    try:
        return compare_first_steps(
            forward,
            lambda _: batch,
            lambda outputs, targets: nn.functional.cross_entropy(
                outputs - outputs.mean(0), targets
            ),
        )
    finally:
        after = network.state_dict()
        assert all(torch.equal(after[name], value) for name, value in before.items())


BIAS, WEIGHT = 3, 2


def test_a_gradient_that_is_only_rounding_may_differ_by_rounding():
    assert compare(part=2e-4, place=BIAS).gradient <= 2e-2


@pytest.mark.parametrize(("part", "place"), [(2e-3, BIAS), (3e-2, WEIGHT)])
def test_a_gradient_that_differs_by_more_is_refused(part, place):
    with pytest.raises(TrainingFailed, match="disagrees with torch"):
        compare(part=part, place=place)
