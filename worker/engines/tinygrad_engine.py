"""The engine tinygrad: passes of a graph as compiled kernels, one set for each shape of inputs.

tinygrad records the kernels of a pass on its second call with a shape and replays them from the
third. It remembers the shapes of a pass, so each shape has its own recording.

The backward pass computes the forward pass again: activations stay inside a recording.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.engines.graph import EngineGraph
from worker.engines.operators import Run, refuse_unsupported
from worker.engines.protocol import Array, Forward, Inputs, Statistics
from worker.engines.tinygrad_device import Opened

Shapes = tuple[tuple[int, ...], ...]
"""Shape of each input."""
MOST_RECORDINGS = 12
"""Most recordings at once: forward, backward and evaluation, for a few sizes of batches."""


@dataclass(frozen=True)
class _Kept:
    """What a backward pass needs of its forward pass: tinygrad's tensors."""

    key: tuple[Any, ...]
    inputs: Sequence[Any]
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
        self.name = f"tinygrad {metadata.version('tinygrad')} ({opened.interface})"
        self.device_name = opened.device_name
        self._graph = graph
        self._opened = opened
        self._names = [*graph.weights, *graph.buffers]
        self._recordings: OrderedDict[tuple[Any, ...], _Recording] = OrderedDict()
        self._dropped: dict[Shapes, dict[str, tuple[int, ...]]] = {}

    def evaluate(self, inputs: Inputs) -> Array:
        """Return the outputs in evaluation mode."""
        recording = self._recording(("evaluate", _shapes(inputs)), self._evaluate)
        given = (*self._load(inputs), *self._upload())
        outputs: Array = recording.replay(*given).numpy()
        return outputs

    def forward(self, inputs: Inputs) -> Forward:
        """Return the outputs in training mode."""
        tensors, loaded = self._upload(), self._load(inputs)
        masks = self._load(self._draw(loaded, tensors))
        flags = tuple(norm.training for norm in self._graph.norms.values())
        kept = _Kept((_shapes(inputs), flags), loaded, tensors, masks)
        recording = self._recording(("forward", *kept.key), self._forward)
        outputs, *parts = [one.numpy() for one in recording.replay(*loaded, *tensors, *masks)]
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
        given = (self._tensor(gradient), *kept.inputs, *kept.tensors, *kept.masks)
        return [one.numpy() for one in recording.replay(*given)]

    def _evaluate(self, _: list[int], *given: Any) -> Any:
        return self._run(given, has_masks=False).outputs.realize()

    def _forward(self, num_values: list[int], *given: Any) -> Any:
        run = self._run(given)
        num_values[:] = [count for _, _, count in run.statistics]
        parts = [one for mean, variance, _ in run.statistics for one in (mean, variance)]
        return self._realize([run.outputs, *parts])

    def _backward(self, _: list[int], gradient: Any, *given: Any) -> Any:
        run = self._run(given)
        first = len(self._graph.graph.inputs)
        weights = given[first : first + len(self._graph.weights)]
        return self._realize((run.outputs * gradient).sum().gradient(*weights))

    def _run(self, given: Sequence[Any], *, has_masks: bool = True) -> Run:
        """Run the graph on its inputs, its tensors and the masks, in this order."""
        first = len(self._graph.graph.inputs)
        inputs, tensors = given[:first], given[first : first + len(self._names)]
        masks = given[first + len(self._names) :]
        named = dict(zip(self._graph.masks, masks, strict=True)) if has_masks else None
        run = Run(self._opened.functions, self._tensor, named)
        run.run(self._graph, inputs, dict(zip(self._names, tensors, strict=True)))
        return run

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

    def _draw(self, loaded: Sequence[Any], tensors: Sequence[Any]) -> list[Array]:
        """Draw the factors of all dropouts with torch's generator, as torch would on a CPU."""
        if not self._graph.masks:
            return []
        shapes = _shapes(loaded)
        if shapes not in self._dropped:
            # Nothing of this runs: tinygrad only finds out the shapes.
            self._dropped[shapes] = self._run([*loaded, *tensors], has_masks=False).dropped
        found = self._dropped[shapes]
        return [mask(found[name]).numpy() for name, mask in self._graph.masks.items()]

    def _upload(self) -> list[Any]:
        tensors = (*self._graph.weights.values(), *self._graph.buffers.values())
        return [self._tensor(tensor.detach().contiguous().numpy()) for tensor in tensors]

    def _load(self, arrays: Sequence[NDArray[Any]]) -> list[Any]:
        return [self._tensor(array) for array in arrays]

    def _tensor(self, value: Any) -> Any:
        array = np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value
        tensor: Any = self._opened.tinygrad.Tensor(array, device=self._opened.device)
        return tensor.contiguous().realize() if isinstance(value, np.ndarray) else tensor


def _shapes(given: Sequence[Any]) -> Shapes:
    return tuple(tuple(one.shape) for one in given)
