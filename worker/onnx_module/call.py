"""What an operator sees of the node that it runs, and of the pass that it is part of."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from worker.onnx_module.graph import Graph, Node

MOST_RUN = 2_000_000
"""Most nodes of one pass, with those of loops and functions."""

Values = MutableMapping[str, Any]


@dataclass
class State:
    """What all nodes of one pass share.

    Attributes:
        device: Device of new tensors.
        run_graph: Runs a subgraph.
        is_training: Whether dropout and batch norm behave as in training.
        special: Modules that run some nodes instead of their operators, by `Node.special`.
        run_left: Nodes that may still run.
    """

    device: torch.device
    run_graph: "Callable[[Graph, Values, State], list[Any]]"
    is_training: bool = False
    special: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    run_left: int = MOST_RUN


@dataclass(frozen=True)
class Call:
    """One run of a node, as its operator sees it."""

    node: Node
    state: State
    values: Values

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        return self.node.attributes.get(name, default)

    @property
    def version(self) -> int:
        """Operator set in which the node's form of the operator appeared."""
        return self.node.version

    @property
    def num_outputs(self) -> int:
        """Number of outputs, with those at the end that are left out."""
        return len(self.node.outputs)

    def is_asked(self, place: int) -> bool:
        """Return whether an output is used."""
        return place < len(self.node.outputs) and bool(self.node.outputs[place])

    def run_body(self, name: str, inputs: Sequence[Any]) -> list[Any]:
        """Run a subgraph, which also sees the values around the node."""
        graph: Graph = self.node.attributes[name]
        values = Scope(self.values)
        values.update(zip(graph.inputs, inputs, strict=False))
        return self.state.run_graph(graph, values, self.state)


class Scope(MutableMapping[str, Any]):
    """Values of a subgraph over those around it, which it can read but not change."""

    def __init__(self, outer: Values) -> None:
        self._own: dict[str, Any] = {}
        self._outer = outer

    def __getitem__(self, name: str) -> Any:
        return self._own[name] if name in self._own else self._outer[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._own[name] = value

    def __delitem__(self, name: str) -> None:
        self._own.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._outer, **self._own})

    def __len__(self) -> int:
        return len({**self._outer, **self._own})
