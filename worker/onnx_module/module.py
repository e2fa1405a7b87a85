"""An ONNX graph as a network of torch."""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Self, cast

import onnx
import torch
from torch import nn

from worker.onnx_module.call import State
from worker.onnx_module.graph import Graph, Node
from worker.onnx_module.read import read_graph
from worker.onnx_module.registry import find_operator
from worker.onnx_module.run import run_graph, run_node
from worker.onnx_module.sizes import Sizes
from worker.onnx_module.weights import find_weights

NORM_FIELDS = ("weight", "bias", "running_mean", "running_var")
"""Where a batch norm of torch has the four constants of ONNX's, in their order."""


class OnnxBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm of a graph with its training behaviour: statistics of the batch.

    Its parameters keep the names of the file through `OnnxModule.names`.
    """

    def _check_input_dim(self, input: torch.Tensor) -> None:  # noqa: A002 - named by torch
        if input.ndim < 2:
            raise ValueError(f"batch norm needs at least 2 dimensions, not {input.ndim}")


class OnnxModule(nn.Module):
    """Runs an ONNX graph; its floating weights are parameters.

    Running statistics, bounds and other constants are buffers. Batch norm and dropout behave as in
    training while the module is in training mode. Sizes are Python numbers, so any batch size runs
    unless the graph itself forbids it.

    Args:
        model: The file's content; its weights are copied.
        head: Names of the weights that distinguish the classes (`find_head`).

    Attributes:
        names: Names of the file's initialisers by the keys of `state_dict()`.
        uses: The first use of each weight, by its name in the file.
        graph: The nodes that run, and the constants that stay on the host.

    Raises:
        OnnxRefused: The graph cannot be run; see `read_graph`.
    """

    def __init__(self, model: onnx.ModelProto, *, head: Collection[str] = ()) -> None:
        super().__init__()
        graph = read_graph(model)
        graph = _lift_constants(graph)
        self.uses = find_weights(graph)
        weights = self.uses.keys()
        self.names: dict[str, str] = {}
        self.backbone = nn.ParameterDict()
        self.head = nn.ParameterDict()
        self.fixed = nn.Module()
        self.norms = nn.ModuleDict()
        self._places: dict[str, tuple[str, str]] = {}
        graph = _fold(self._add_norms(graph), keep={*weights, *self.names.values()})
        kept: dict[str, Any] = {}
        in_norms = set(self.names.values())
        on_host = _find_host_reads(graph).__contains__
        for name, value in graph.constants.items():
            if isinstance(value, Sizes) or (name not in weights and on_host(name)):
                kept[name] = value
            elif name in weights and name not in in_norms:
                self._add_weight(name, value, is_head=name in head)
            elif name not in in_norms:
                self._add_fixed(name, value)
        self.graph = Graph(graph.nodes, graph.inputs, graph.outputs, kept)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Return the graph's first output for a batch of its inputs."""
        named = zip(self.graph.inputs, inputs, strict=True)
        values: dict[str, Any] = {**self.list_tensors(), **dict(named)}
        special = cast("dict[str, Callable[..., Any]]", dict(self.norms))
        state = State(inputs[0].device, run_graph, self.training, special)
        result: torch.Tensor = run_graph(self.graph, values, state)[0]
        return result

    def train(self, mode: bool = True) -> Self:
        """Switch the mode; a frozen batch norm keeps its statistics."""
        super().train(mode)
        for norm in self.norms.values():
            if not any(parameter.requires_grad for parameter in norm.parameters()):
                norm.eval()
        return self

    def list_tensors(self) -> dict[str, torch.Tensor]:
        """Return parameters and buffers by the names under which nodes read them."""
        return {
            name: getattr(getattr(self, owner), key) for name, (owner, key) in self._places.items()
        }

    def weights_by_name(self) -> dict[str, torch.Tensor]:
        """Return all parameters and statistics by their names in the file."""
        state = self.state_dict(keep_vars=True)
        return {name: state[path] for path, name in self.names.items()}

    def _add_weight(self, name: str, value: torch.Tensor, *, is_head: bool) -> None:
        owner = "head" if is_head else "backbone"
        key = escape(name)
        getattr(self, owner)[key] = nn.Parameter(value.clone())
        self._place(name, owner, key)

    def _add_fixed(self, name: str, value: torch.Tensor) -> None:
        key = f"constant_{len(self._places)}"
        self.fixed.register_buffer(key, value)
        self._place(name, "fixed", key)

    def _place(self, name: str, owner: str, key: str) -> None:
        self._places[name] = (owner, key)
        self.names[f"{owner}.{key}"] = name

    def _add_norms(self, graph: Graph) -> Graph:
        """Make a module of every batch norm whose four constants nothing else uses."""
        uses = Counter(name for node in graph.nodes for name in node.inputs)
        nodes = []
        for node in graph.nodes:
            names = node.inputs[1:5]
            is_norm = node.op == "BatchNormalization" and not any(node.outputs[1:])
            if is_norm and all(name in graph.constants and uses[name] == 1 for name in names):
                key = f"norm_{len(self.norms)}"
                self.norms[key] = self._build_norm(graph, node, key)
                nodes.append(replace(node, special=key, inputs=node.inputs[:1]))
            else:
                nodes.append(node)
        return Graph(tuple(nodes), graph.inputs, graph.outputs, graph.constants)

    def _build_norm(self, graph: Graph, node: Node, key: str) -> OnnxBatchNorm:
        # ONNX's momentum is the part that is kept, torch's the part that is new.
        momentum = 1 - node.attributes.get("momentum", 0.9)
        values = [graph.constants[name] for name in node.inputs[1:5]]
        scale = values[0]
        assert isinstance(scale, torch.Tensor)
        epsilon = node.attributes.get("epsilon", 1e-5)
        norm = OnnxBatchNorm(len(scale), eps=epsilon, momentum=momentum)
        for field, name, value in zip(NORM_FIELDS, node.inputs[1:5], values, strict=True):
            with torch.no_grad():
                getattr(norm, field).copy_(value)
            self.names[f"norms.{key}.{field}"] = name
        return norm


def escape(name: str) -> str:
    """Return a name that a parameter may have: torch allows no dots in it."""
    return name.replace("%", "%25").replace(".", "%2E")


def _lift_constants(graph: Graph) -> Graph:
    """Return a graph whose Constant nodes are constants."""
    constants = dict(graph.constants)
    nodes = []
    state = State(torch.device("cpu"), run_graph)
    for node in graph.nodes:
        if node.op == "Constant" and not node.domain:
            (constants[node.outputs[0]],) = run_node(node, [], {}, state)
        else:
            nodes.append(node)
    return Graph(tuple(nodes), graph.inputs, graph.outputs, constants)


def _fold(graph: Graph, *, keep: Collection[str]) -> Graph:
    """Return a graph in which nodes are gone that only read constants that are not trained."""
    known = {name: value for name, value in graph.constants.items() if name not in keep}
    kept = {name: value for name, value in graph.constants.items() if name in keep}
    nodes = []
    for node in graph.nodes:
        outputs = _run_ahead(node, known) if _is_constant(node, known) else None
        if outputs is None:
            nodes.append(node)
        else:
            known |= outputs
    read = {name for node in nodes for name in _all_names(node)} | set(graph.outputs)
    constants = {name: value for name, value in known.items() if name in read}
    return Graph(tuple(nodes), graph.inputs, graph.outputs, {**constants, **kept})


def _find_host_reads(graph: Graph) -> set[str]:
    """Return the constants that operators only read as numbers, which therefore stay on the host.

    On a GPU each such read would wait for everything that was queued before.
    """
    as_numbers: set[str] = set()
    others = set(graph.outputs)
    for node in graph.nodes:
        found = None if node.special else find_operator(node.domain, node.op, node.version)
        places = () if found is None else found.sizes
        for place, name in enumerate(node.inputs):
            (as_numbers if place in places else others).add(name)
        others |= _all_names(node) - set(node.inputs)
    return as_numbers - others


def _all_names(node: Node) -> set[str]:
    graphs = [value for value in node.attributes.values() if isinstance(value, Graph)]
    inner = {name for graph in graphs for one in graph.nodes for name in _all_names(one)}
    return {*node.inputs, *inner, *(name for graph in graphs for name in graph.outputs)}


def _is_constant(node: Node, known: dict[str, Any]) -> bool:
    has_graph = any(isinstance(value, Graph) for value in node.attributes.values())
    found = find_operator(node.domain, node.op, node.version)
    if found is None or found.is_random or has_graph or not node.inputs:
        return False
    return all(name in known for name in node.inputs if name)


def _run_ahead(node: Node, known: dict[str, Any]) -> dict[str, Any] | None:
    state = State(torch.device("cpu"), run_graph)
    inputs = [known[name] if name else None for name in node.inputs]
    with torch.no_grad():
        outputs = run_node(node, inputs, {}, state)
    if not all(isinstance(value, (torch.Tensor, Sizes)) for value in outputs):
        return None
    return dict(zip(node.outputs, outputs, strict=False))
