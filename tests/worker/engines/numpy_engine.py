"""An engine that is written in numpy, for tests of what torch does around an engine."""

import copy

import torch

from worker.engines.protocol import Forward, Statistics


class Numpy:
    """Batch norm and one linear layer, as `TwoLayers`."""

    name, device_name = "numpy 2", "this CPU"

    def __init__(self, network):
        self.network = network
        self.sizes = []
        self.error = None

    def evaluate(self, given):
        (inputs,) = given
        self.sizes.append(len(inputs))
        if self.error is not None:
            raise self.error
        with torch.inference_mode():
            return self.network(torch.from_numpy(inputs)).numpy()

    def forward(self, given):
        (inputs,) = given
        if self.error is not None:
            raise self.error
        twin = copy.deepcopy(self.network)
        with torch.enable_grad():
            outputs = twin(torch.from_numpy(inputs))
        one = Statistics(inputs.mean(0), inputs.var(0), len(inputs))
        return Forward(outputs.detach().numpy(), [one], (twin, outputs))

    def backward(self, kept, gradient):
        twin, outputs = kept
        outputs.backward(torch.from_numpy(gradient))
        return [parameter.grad.numpy() for parameter in twin.parameters()]


class Graph:
    """The parts of an `EngineGraph` that the network reads."""

    def __init__(self, network):
        self.weights = dict(network.named_parameters())
        self.norms = {"norm": network[0]}
