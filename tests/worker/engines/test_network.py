"""What torch does around an engine, with an engine that is written in numpy."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from redkiln.failure import FailureCode
from tests.worker.engines.numpy_engine import Graph, Numpy
from worker.engines.graph import build_graph
from worker.engines.network import EngineNetwork, keeping_state
from worker.process.failed import TrainingFailed


@pytest.fixture
def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))


@pytest.fixture
def engine_network(network):
    return EngineNetwork(network, Graph(network), Numpy(network), size=4)


def test_gradients_and_running_statistics_are_those_of_torch(network, engine_network):
    alone = copy.deepcopy(network)
    x = torch.rand(6, 3)
    for forward in (engine_network, alone):
        forward.train()
        forward(x).square().sum().backward()
    for ours, theirs in zip(network.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
    for name, theirs in alone.named_buffers():
        torch.testing.assert_close(network.get_buffer(name), theirs)


def test_scoring_uses_batches_of_one_size(network, engine_network):
    x = torch.rand(10, 3)
    engine_network.eval()
    with torch.inference_mode():
        torch.testing.assert_close(engine_network(x), network(x))
    assert engine_network.engine.sizes == [4, 4, 4]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), torch.OutOfMemoryError),
        (RuntimeError("Allocating: Out of memory"), torch.OutOfMemoryError),
        (RuntimeError("device lost"), TrainingFailed),
    ],
)
@pytest.mark.parametrize("mode", [True, False])
def test_errors_of_an_engine_are_those_that_training_knows(engine_network, error, expected, mode):
    engine_network.train(mode)
    engine_network.engine.error = error
    with pytest.raises(expected) as caught:
        engine_network(torch.rand(4, 3))
    if expected is TrainingFailed:
        assert caught.value.failure.code is FailureCode.GPU_FAULT
        assert "numpy 2 failed on this CPU: device lost" in str(caught.value)


def test_what_is_tried_leaves_no_trace(network, engine_network):
    before = copy.deepcopy(network.state_dict())
    state = torch.get_rng_state()
    with keeping_state(network):
        engine_network.train()
        engine_network(torch.rand(4, 3)).sum().backward()
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in network.parameters())


def test_weights_of_an_exported_network_are_its_own(network):
    image = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(0.5), nn.Flatten(),
                          nn.Linear(8, 3))  # fmt: skip
    graph = build_graph(image.train(), (torch.rand(2, 1, 4, 4),))
    own = {id(parameter) for parameter in image.parameters()}
    assert {id(parameter) for parameter in graph.weights.values()} == own
    assert list(graph.norms.values()) == [image[1]]
    (mask,) = graph.masks.values()
    torch.manual_seed(0)
    factors = mask((200,))
    assert set(np.unique(factors.numpy())) == {0.0, 2.0}
    assert image.training
