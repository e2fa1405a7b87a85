"""The engine tinygrad: passes of a graph as compiled kernels, one set for each shape of inputs.

tinygrad records the kernels of a pass on its second call with a shape and replays them from the
third. It remembers the shapes of a pass, so each shape has its own recording.

The backward pass computes the forward pass again: activations stay inside a recording.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
import torch

from worker.engines.graph import EngineGraph
from worker.engines.operators import Run, refuse_unsupported
from worker.engines.protocol import Array, Forward, Statistics
from worker.engines.tinygrad_device import Opened

MOST_RECORDINGS = 12
"""Most recordings at once: forward, backward and evaluation, for a few sizes of batches."""


@dataclass(frozen=True)
class _Kept:
    """What a backward pass needs of its forward pass: tinygrad's tensors."""

    key: tuple[Any, ...]
    inputs: Any
    tensors: Sequence[Any]
    masks: Sequence[Any]


@dataclass
class _Recording:
    """A recorded pass, and how many values each batch norm had when it was recorded."""

    replay: Callable[..., Any]
    num_values: list[int]


class TinygradEngine:
    """Runs the passes of a graph with tinygrad; see `worker.engines.protocol.Engine`."""

    def __init__(self, graph: EngineGraph, opened: Opened) -> None:
        refuse_unsupported(graph)
        self.name = f"tinygrad {metadata.version('tinygrad')}"
        self.device_name = opened.device_name
        self._graph = graph
        self._opened = opened
        self._names = [*graph.weights, *graph.buffers]
        self._recordings: OrderedDict[tuple[Any, ...], _Recording] = OrderedDict()
        self._dropped: dict[tuple[int, ...], dict[str, tuple[int, ...]]] = {}

    def evaluate(self, inputs: Array) -> Array:
        """Return the outputs in evaluation mode."""
        recording = self._recording(("evaluate", inputs.shape), self._evaluate)
        outputs: Array = recording.replay(self._tensor(inputs), *self._upload()).numpy()
        return outputs

    def forward(self, inputs: Array) -> Forward:
        """Return the outputs in training mode."""
        tensors, x = self._upload(), self._tensor(inputs)
        masks = [self._tensor(mask) for mask in self._draw(x, tensors)]
        flags = tuple(norm.training for norm in self._graph.norms.values())
        kept = _Kept((inputs.shape, flags), x, tensors, masks)
        recording = self._recording(("forward", *kept.key), self._forward)
        outputs, *parts = [one.numpy() for one in recording.replay(x, *tensors, *masks)]
        statistics = [
            Statistics(mean, variance, num_values)
            for mean, variance, num_values in zip(
                parts[::2], parts[1::2], recording.num_values, strict=True
            )
        ]
        return Forward(outputs, statistics, kept)

    def backward(self, kept: Any, gradient: Array) -> list[Array]:
        """Return the gradient of each weight."""
        recording = self._recording(("backward", *kept.key), self._backward)
        given = (*kept.tensors, *kept.masks)
        return [
            one.numpy() for one in recording.replay(kept.inputs, self._tensor(gradient), *given)
        ]

    def _evaluate(self, _: list[int], x: Any, *given: Any) -> Any:
        return self._run(x, given, masks=None).outputs.realize()

    def _forward(self, num_values: list[int], x: Any, *given: Any) -> Any:
        run = self._run(x, given, masks=self._name_masks(given))
        num_values[:] = [count for _, _, count in run.statistics]
        parts = [one for mean, variance, _ in run.statistics for one in (mean, variance)]
        return self._realize([run.outputs, *parts])

    def _backward(self, _: list[int], x: Any, gradient: Any, *given: Any) -> Any:
        run = self._run(x, given, masks=self._name_masks(given))
        weights = given[: len(self._graph.weights)]
        return self._realize((run.outputs * gradient).sum().gradient(*weights))

    def _run(self, x: Any, given: Sequence[Any], *, masks: Mapping[str, Any] | None) -> Run:
        run = Run(self._opened.functions, self._tensor, masks)
        run.run(self._graph, x, dict(zip(self._names, given, strict=False)))
        return run

    def _name_masks(self, given: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(self._graph.masks, given[len(self._names) :], strict=True))

    def _realize(self, found: list[Any]) -> list[Any]:
        whole = [one.contiguous() for one in found]
        self._opened.tinygrad.Tensor.realize(*whole)
        return whole

    def _recording(self, key: tuple[Any, ...], run: Callable[..., Any]) -> _Recording:
        """Return the recording of a pass; the least recently used one makes room for a new one."""
        if key not in self._recordings:
            while len(self._recordings) >= MOST_RECORDINGS:
                self._recordings.popitem(last=False)
            num_values: list[int] = []
            jit = self._opened.tinygrad.TinyJit
            replay = jit(lambda *given: run(num_values, *given))
            self._recordings[key] = _Recording(replay, num_values)
        self._recordings.move_to_end(key)
        return self._recordings[key]

    def _draw(self, x: Any, tensors: Sequence[Any]) -> list[Array]:
        """Draw the factors of all dropouts with torch's generator, as torch would on a CPU."""
        if not self._graph.masks:
            return []
        shape = tuple(x.shape)
        if shape not in self._dropped:
            # Nothing of this runs: tinygrad only finds out the shapes.
            self._dropped[shape] = self._run(x, tensors, masks=None).dropped
        found = self._dropped[shape]
        return [mask(found[name]).numpy() for name, mask in self._graph.masks.items()]

    def _upload(self) -> list[Any]:
        tensors = (*self._graph.weights.values(), *self._graph.buffers.values())
        return [self._tensor(tensor.detach().contiguous().numpy()) for tensor in tensors]

    def _tensor(self, value: Any) -> Any:
        array = np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value
        tensor: Any = self._opened.tinygrad.Tensor(array, device=self._opened.device)
        return tensor.contiguous().realize() if isinstance(value, np.ndarray) else tensor


def to_array(tensor: torch.Tensor) -> Array:
    """Return a tensor of the CPU as a contiguous array."""
    array: Array = tensor.detach().contiguous().numpy()
    return array
