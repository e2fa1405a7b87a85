"""What networks for rows of a table share. They take prepared numbers and places of categories.

Shapes: B batch, F prepared numbers, K categorical columns. A place is a row of the embedding table
that all columns share; each column has its own rows, the first of which is for missing or unknown
values.
"""

import math
from dataclasses import dataclass

import torch
from torch import nn

MAX_EMBEDDING = 50


@dataclass(frozen=True)
class TableShape:
    """The facts of a table that decide its network's shape.

    Attributes:
        num_numbers: Number of prepared numbers.
        num_categories: Number of categories of each categorical column.
        num_classes: Number of classes; None for a regression, which has one output.
        has_labels: Whether a row can have several of the classes.
    """

    num_numbers: int
    num_categories: list[int]
    num_classes: int | None
    has_labels: bool = False

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

    def split_inputs(
        self, first: torch.Tensor, second: torch.Tensor | None = None
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Return numbers and places, or None for what the table lacks, from a network's inputs."""
        if not self.num_numbers:
            return None, first
        return first, second


class TabularNetwork(nn.Module):
    """Shared by the networks: which inputs exist, and the shape of a regression's output.

    Attributes:
        shape: Shape of the table.
        is_regression: Whether it predicts a value instead of classes.
        num_members: Number of predictions that the network computes for a row and averages. With
            more than one it returns all of them in training, (B, members, classes) or (B, members).
    """

    def __init__(self, shape: TableShape) -> None:
        super().__init__()
        self.shape = shape
        self.is_regression = shape.num_classes is None
        self.num_members = 1

    def forward(self, first: torch.Tensor, second: torch.Tensor | None = None) -> torch.Tensor:
        """Compute logits (B, classes), or values (B,).

        Args:
            first: Numbers (B, F) float32; places (B, K) int32 without numbers.
            second: Places (B, K) int32, if there are both.
        """
        outputs = self.compute(*self.shape.split_inputs(first, second))
        return outputs.squeeze(-1) if self.is_regression else outputs

    def find_head(self) -> nn.Module | None:
        """Return the part that depends on the classes or the target; None if all parts do."""
        return None

    def fit(
        self, numbers: torch.Tensor | None, places: torch.Tensor | None, targets: torch.Tensor
    ) -> None:
        """Compute what the network takes from training rows before training; nothing by default.

        Args:
            numbers: Prepared numbers (N, F), if there are any.
            places: Places of categories (N, K), if there are any.
            targets: Labels (N,) int64, or (N, C) with 1 for each of several; or standardised values
                (N,) float32.
        """

    def compute(self, numbers: torch.Tensor | None, places: torch.Tensor | None) -> torch.Tensor:
        """Compute (B, outputs) from the inputs that exist."""
        raise NotImplementedError


def auto_embedding_size(num_categories: list[int]) -> int:
    """Return the width of an embedding, from the column with the most categories.

    Source: the rule of fastai's tabular models, 1.6 n^0.56, found by trial; capped lower, because
    all columns share one width here.
    """
    largest = max(num_categories, default=0) + 1
    return max(2, min(MAX_EMBEDDING, round(1.6 * math.pow(largest, 0.56))))


def embed_categories(shape: TableShape, size: int) -> nn.Embedding:
    """Build the vectors of all columns' categories, with random weights."""
    embedding = nn.Embedding(shape.num_places, size)
    with torch.no_grad():
        embedding.weight.normal_(std=0.1)
        # Zero means no information; a random vector would be arbitrary, as training never saw it.
        embedding.weight[shape.unknown_places] = 0
    return embedding
