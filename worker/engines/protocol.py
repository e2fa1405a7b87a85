"""What an engine does for a network of torch.

Shapes: B batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Inputs = tuple[NDArray[Any], ...]
"""The inputs of a graph, (B, ...) each: float32 numbers, or int32 places of categories."""


@dataclass(frozen=True)
class Statistics:
    """Mean and variance of a batch norm's input in one pass, for each channel.

    Attributes:
        variance: Over the number of values, not one less.
        num_values: Values of each channel.
    """

    mean: Array
    variance: Array
    num_values: int


@dataclass(frozen=True)
class Forward:
    """A forward pass in training mode: what it returns, and what the backward pass needs."""

    outputs: Array
    statistics: Sequence[Statistics]
    kept: Any


class Engine(Protocol):
    """Runs the passes of one graph on one device, for any number of batch sizes.

    Weights cross with every pass: torch's optimiser changes them on the CPU.

    Attributes:
        name: The engine with its version.
        device_name: The device as its driver names it.
    """

    name: str
    device_name: str

    def evaluate(self, inputs: Inputs) -> Array:
        """Return the outputs in evaluation mode."""

    def forward(self, inputs: Inputs) -> Forward:
        """Return the outputs in training mode."""

    def backward(self, kept: Any, gradient: Array) -> list[Array]:
        """Return the gradient of each weight, in the order of `EngineGraph.weights`.

        Args:
            kept: `Forward.kept` of the forward pass.
            gradient: Gradient of its outputs.
        """
