"""A network of torch whose passes an engine runs; autograd and running statistics stay here."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from redkiln.failure import FailureCode
from worker.engines.graph import EngineGraph
from worker.engines.protocol import Engine, Statistics
from worker.onnx_module.refused import OnnxRefused
from worker.process.failed import TrainingFailed

NO_MEMORY = ("out of memory", "mem_object_allocation_failure", "cl_out_of_")
"""What drivers say when memory runs out: those of Vulkan, and OpenCL's names of errors."""


class EngineNetwork(nn.Module):
    """Called like the network it stands for, whose parameters get the gradients.

    Args:
        network: The network. It keeps the weights and is what is saved and exported.
        graph: Its graph.
        engine: Runs the graph.
        size: Samples of a training step. Scoring uses the same number, so that there is one set of
            kernels for it.
    """

    def __init__(
        self, network: nn.Module, graph: EngineGraph, engine: Engine, *, size: int
    ) -> None:
        super().__init__()
        self.network = network
        self._graph = graph
        self.engine = engine
        self._size = size

    def train(self, mode: bool = True) -> "EngineNetwork":
        """Switch the network's mode."""
        self.training = mode
        self.network.train(mode)
        return self

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Return what the network returns for its inputs, (B, ...) each."""
        if not self.network.training:
            pieces = zip(*(torch.split(one, self._size) for one in inputs), strict=True)
            return torch.cat([self._evaluate(piece) for piece in pieces])
        weights = list(self._graph.weights.values())
        outputs: torch.Tensor = _Pass.apply(  # type: ignore[no-untyped-call]
            self, inputs, *weights
        )
        return outputs

    def _evaluate(self, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        num = len(inputs[0])
        padded = tuple(_pad(one, num=self._size).numpy() for one in inputs)
        with _translated(self.engine):
            outputs = self.engine.evaluate(padded)
        return torch.from_numpy(outputs.copy())[:num]

    def keep_statistics(self, statistics: Sequence[Statistics]) -> None:
        """Let the running statistics of batch norms follow those of a batch, as torch does."""
        training = [norm for norm in self._graph.norms.values() if norm.training]
        with torch.no_grad():
            for norm, one in zip(training, statistics, strict=True):
                _follow(norm, one)


class _Pass(torch.autograd.Function):
    """A forward pass of an engine, and its backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        network: EngineNetwork,
        inputs: tuple[torch.Tensor, ...],
        *weights: nn.Parameter,
    ) -> torch.Tensor:
        given = tuple(one.detach().contiguous().numpy() for one in inputs)
        with _translated(network.engine):
            found = network.engine.forward(given)
        network.keep_statistics(found.statistics)
        ctx.engine, ctx.kept, ctx.num = network.engine, found.kept, len(weights)
        return torch.from_numpy(found.outputs.copy())

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        with _translated(ctx.engine):
            found = ctx.engine.backward(ctx.kept, gradient.contiguous().numpy())
        ctx.kept = None
        return (None, None, *(torch.from_numpy(one.copy()) for one in found))


def _pad(inputs: torch.Tensor, *, num: int) -> torch.Tensor:
    """Return inputs of `num` samples; those that are missing are 0."""
    missing = num - len(inputs)
    return functional.pad(inputs, [0, 0] * (inputs.ndim - 1) + [0, missing]).contiguous()


@contextmanager
def _translated(engine: Engine) -> Iterator[None]:
    """Turn an engine's errors into those that training knows: no memory, or a failed GPU."""
    try:
        yield
    except OnnxRefused:
        raise
    except MemoryError as error:
        raise _out_of_memory(engine) from error
    # Drivers report everything as a RuntimeError or an OSError.
    except (RuntimeError, OSError) as error:
        if any(words in str(error).lower() for words in NO_MEMORY):
            raise _out_of_memory(engine) from error
        first = str(error).strip().partition("\n")[0]
        message = (
            f"{engine.name} failed on {engine.device_name}: {first}; see trainer.log, or set "
            "resources.engine to torch"
        )
        raise TrainingFailed(FailureCode.GPU_FAULT, message) from error


def _out_of_memory(engine: Engine) -> torch.OutOfMemoryError:
    return torch.OutOfMemoryError(f"{engine.device_name} ran out of memory; reduce batch_size")


def _follow(norm: _BatchNorm, one: Statistics) -> None:
    if norm.running_mean is None or norm.running_var is None:
        return
    momentum = norm.momentum
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
        if momentum is None:
            momentum = 1.0 / float(norm.num_batches_tracked)
    assert momentum is not None
    unbiased = one.variance * (one.num_values / max(one.num_values - 1, 1))
    norm.running_mean.lerp_(torch.from_numpy(one.mean.copy()), momentum)
    norm.running_var.lerp_(torch.from_numpy(unbiased.copy()), momentum)


@contextmanager
def keeping_state(network: nn.Module) -> Iterator[None]:
    """Undo changes of gradients, running statistics and torch's generator afterwards."""
    kept = {name: value.clone() for name, value in network.named_buffers()}
    was_training = network.training
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        network.zero_grad(set_to_none=True)
        network.train(was_training)
        with torch.no_grad():
            for name, value in network.named_buffers():
                value.copy_(kept[name])
