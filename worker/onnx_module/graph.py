"""A graph as data: nodes in the order in which they run, constants, inputs and outputs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from worker.onnx_module.sizes import Sizes

Constant = torch.Tensor | Sizes


@dataclass(frozen=True)
class Node:
    """One operator of a graph.

    Attributes:
        domain: Domain of the operator, "" for ONNX's own.
        version: Operator set in which this form of the operator appeared; 0 for a function of the
            file.
        inputs: Names of its inputs; "" for one that is left out.
        attributes: Values by name: numbers, text, lists of them, tensors, and `Graph`.
        body: Graph of a function that the node calls; None for an operator.
        source: The node's own protobuf message, for operators that are functions.
        opsets: Versions of operator sets by domain, where the node is.
        special: Key of what runs the node instead of its operator (`State.special`); "" for none.
    """

    op: str
    domain: str
    name: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    body: "Graph | None" = None
    source: Any = field(default=None, repr=False, compare=False)
    opsets: Mapping[str, int] = field(default_factory=dict)
    special: str = ""

    @property
    def title(self) -> str:
        """The node in messages: its operator, and its name or first output."""
        operator = f"{self.domain}:{self.op}" if self.domain else self.op
        return f"{operator} ({self.name or (self.outputs[0] if self.outputs else 'no output')})"


@dataclass(frozen=True)
class Graph:
    """Nodes in the order in which they run, and what they start from.

    Attributes:
        inputs: Names of the inputs that are not constants.
        constants: Initialisers by name.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: dict[str, Constant]

    @cached_property
    def last_uses(self) -> tuple[tuple[str, ...], ...]:
        """For each node the names that no later node reads, so that they can be freed."""
        seen = set(self.outputs)
        last: list[tuple[str, ...]] = []
        for node in reversed(self.nodes):
            used = {*node.inputs, *node.outputs, *_names_inside(node)}
            last.append(tuple(used - seen))
            seen |= used
        return tuple(reversed(last))


def _names_inside(node: Node) -> set[str]:
    """Return all names that the subgraphs of a node read."""
    graphs = [value for value in node.attributes.values() if isinstance(value, Graph)]
    names = set()
    for graph in graphs:
        names |= set(graph.outputs)
        for inner in graph.nodes:
            names |= {*inner.inputs, *_names_inside(inner)}
    return names
