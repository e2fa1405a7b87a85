"""Networks for rows of a table. Each takes prepared numbers, places of categories, or both.

Shapes: B batch, F prepared numbers, K categorical columns. A place is a row of the embedding table
that all columns share; each column has its own rows, the first of which is for missing or unknown
values.
"""

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from redkiln.spec.tabular import TabularModel
from worker.trainer.models.dropout import ByteDropout

MAX_EMBEDDING = 50


@dataclass(frozen=True)
class TableShape:
    """The facts of a table that decide its network's shape.

    Attributes:
        num_numbers: Number of prepared numbers.
        num_categories: Number of categories of each categorical column.
        num_classes: Number of classes; None for a regression, which has one output.
    """

    num_numbers: int
    num_categories: list[int]
    num_classes: int | None

    @property
    def num_outputs(self) -> int:
        """Number of the network's outputs."""
        return 1 if self.num_classes is None else self.num_classes

    @property
    def unknown_places(self) -> list[int]:
        """Each categorical column's place for missing or unknown values: its first."""
        sizes = [num + 1 for num in self.num_categories]
        return [sum(sizes[:column]) for column in range(len(sizes))]

    @property
    def num_places(self) -> int:
        """Number of places of all categorical columns."""
        return sum(self.num_categories) + len(self.num_categories)


class TabularNetwork(nn.Module):
    """Shared by the networks: which inputs exist, and the shape of a regression's output."""

    def __init__(self, shape: TableShape) -> None:
        super().__init__()
        self._has_numbers = shape.num_numbers > 0
        self._has_places = bool(shape.num_categories)
        self._is_regression = shape.num_classes is None

    def forward(self, first: torch.Tensor, second: torch.Tensor | None = None) -> torch.Tensor:
        """Compute logits (B, classes), or values (B,).

        Args:
            first: Numbers (B, F) float32; places (B, K) int32 if there are no numbers.
            second: Places (B, K) int32, if there are both.
        """
        numbers = first if self._has_numbers else None
        places = second if self._has_numbers else first
        outputs = self.compute(numbers, places if self._has_places else None)
        return outputs.squeeze(1) if self._is_regression else outputs

    def compute(self, numbers: torch.Tensor | None, places: torch.Tensor | None) -> torch.Tensor:
        """Compute (B, outputs) from the inputs that exist."""
        raise NotImplementedError


class Mlp(TabularNetwork):
    """Numbers concatenated with embeddings of categories, then hidden layers with dropout."""

    def __init__(
        self, shape: TableShape, *, embedding_size: int, hidden: list[int], dropout: float
    ) -> None:
        super().__init__(shape)
        self.embedding = _embedding(shape, embedding_size) if shape.num_categories else None
        width = shape.num_numbers + len(shape.num_categories) * embedding_size
        widths = [width, *hidden]
        layers: list[nn.Module] = []
        for narrow, wide in pairwise(widths):
            layers += [nn.Linear(narrow, wide), nn.ReLU(), ByteDropout(dropout)]
        self.hidden = nn.Sequential(*layers)
        self.head = nn.Linear(widths[-1], shape.num_outputs)

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
    assert options.embedding_size != "auto"
    return Mlp(
        shape,
        embedding_size=options.embedding_size,
        hidden=options.hidden,
        dropout=options.dropout,
    )


def auto_embedding_size(num_categories: list[int]) -> int:
    """Return the width of an embedding, from the column with the most categories.

    Source: the rule of fastai's tabular models, 1.6 n^0.56, found by trial; capped lower, because
    all columns share one width here.
    """
    largest = max(num_categories, default=0) + 1
    return max(2, min(MAX_EMBEDDING, round(1.6 * math.pow(largest, 0.56))))


def tabular_architecture(model: TabularModel, shape: TableShape) -> dict[str, Any]:
    """Return everything that decides a network's graph, as JSON."""
    return {"table": asdict(shape), "name": model.name, "options": model.options.model_dump()}


def _embedding(shape: TableShape, size: int) -> nn.Embedding:
    embedding = nn.Embedding(shape.num_places, size)
    with torch.no_grad():
        embedding.weight.normal_(std=0.1)
        # Zero means no information; a random vector would be arbitrary, as training never saw it.
        embedding.weight[shape.unknown_places] = 0
    return embedding
