"""The networks for rows of a table: `mlp` and `linear`; `tabm` has its own file.

Shapes: B batch, F prepared numbers, K categorical columns.
"""

from dataclasses import asdict
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from redkiln.spec.tabular import TabularModel
from worker.trainer.models.dropout import ByteDropout
from worker.trainer.models.table_network import TableShape, TabularNetwork, embed_categories
from worker.trainer.models.tabm import TabM


class Mlp(TabularNetwork):
    """Numbers concatenated with embeddings of categories, then hidden layers with dropout."""

    def __init__(
        self, shape: TableShape, *, embedding_size: int, hidden: list[int], dropout: float
    ) -> None:
        super().__init__(shape)
        self.embedding = embed_categories(shape, embedding_size) if shape.num_categories else None
        width = shape.num_numbers + len(shape.num_categories) * embedding_size
        widths = [width, *hidden]
        layers: list[nn.Module] = []
        for narrow, wide in pairwise(widths):
            layers += [nn.Linear(narrow, wide), nn.ReLU(), ByteDropout(dropout)]
        self.hidden = nn.Sequential(*layers)
        self.head = nn.Linear(widths[-1], shape.num_outputs)

    def find_head(self) -> nn.Module:
        """Return the part that depends on the classes or the target."""
        return self.head

    def compute(self, numbers: torch.Tensor | None, places: torch.Tensor | None) -> torch.Tensor:
        """Compute (B, outputs) from the inputs that exist."""
        parts = [] if numbers is None else [numbers]
        if places is not None:
            assert self.embedding is not None
            parts.append(self.embedding(places).flatten(1))
        x = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        outputs: torch.Tensor = self.head(self.hidden(x))
        return outputs


class Linear(TabularNetwork):
    """A weight for each number and each category: logistic or linear regression."""

    def __init__(self, shape: TableShape) -> None:
        super().__init__(shape)
        self.bias = nn.Parameter(torch.zeros(shape.num_outputs))
        if shape.num_numbers:
            self.weight = nn.Parameter(torch.zeros(shape.num_outputs, shape.num_numbers))
        if shape.num_categories:
            self.embedding = nn.Embedding(shape.num_places, shape.num_outputs)
            nn.init.zeros_(self.embedding.weight)

    def compute(self, numbers: torch.Tensor | None, places: torch.Tensor | None) -> torch.Tensor:
        """Compute (B, outputs) from the inputs that exist."""
        outputs: torch.Tensor = self.bias
        if numbers is not None:
            outputs = nn.functional.linear(numbers, self.weight, self.bias)
        if places is not None:
            outputs = outputs + self.embedding(places).sum(1)
        return outputs


def build_tabular_model(model: TabularModel, shape: TableShape) -> TabularNetwork:
    """Build a new network from a resolved spec; its weights follow torch's global generator."""
    options = model.options
    if model.name == "linear":
        return Linear(shape)
    if model.name == "tabm":
        return TabM(shape, model)
    assert options.embedding_size != "auto"
    return Mlp(
        shape,
        embedding_size=options.embedding_size,
        hidden=options.hidden,
        dropout=options.dropout,
    )


def tabular_architecture(model: TabularModel, shape: TableShape) -> dict[str, Any]:
    """Return everything that decides a network's graph, as JSON."""
    return {"table": asdict(shape), "name": model.name, "options": model.options.model_dump()}
