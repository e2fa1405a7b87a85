"""tabm: several small networks in one, which share most weights and are trained side by side.

Each number is split at the quantiles of its column, and each column is scaled by how much it alone
says about the target. Each member of the ensemble multiplies these inputs by its own factors.
The members are trained each on its own loss; a prediction is the mean of theirs.

Shapes: B batch, F prepared numbers, K categorical columns, T bins of a number, D values of an
embedded number, M members, W width of all embedded columns, C outputs.

Source: Gorishniy et al., TabM (arXiv:2410.24210), for members that share their matrices;
Gorishniy et al. (arXiv:2203.05556), for piecewise-linear encodings. No code of either is used.
"""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from redkiln.spec.tabular import TabularModel
from worker.trainer.models.dropout import ByteDropout
from worker.trainer.models.relevance import find_quantiles, weigh_columns
from worker.trainer.models.table_network import TableShape, TabularNetwork, embed_categories

MOST_NUMBER_VALUES = 8
"""Most values of an embedded number; fewer in tables of more than 128 numbers."""
MOST_VALUES = 1024
LEAST_PROBABILITY = 1e-9
"""Lower limit of a probability, so that its logarithm stays finite."""


class TabM(TabularNetwork):
    """Embedded columns, hidden layers with dropout and a linear layer, each for all members.

    In training it returns the outputs of every member, (B, M, C) or (B, M), for their own losses;
    otherwise the mean: of probabilities, as logarithms (B, C), or of values (B,).
    """

    def __init__(self, shape: TableShape, model: TabularModel) -> None:
        super().__init__(shape)
        options = model.options
        assert options.embedding_size != "auto"
        self.num_members = options.members
        num_columns = len(shape.num_categories)
        width = num_columns * options.embedding_size
        if shape.num_numbers:
            size = min(MOST_NUMBER_VALUES, max(2, MOST_VALUES // shape.num_numbers))
            self.numbers = PiecewiseLinear(shape.num_numbers, bins=options.bins, size=size)
            self.number_scales = ColumnScales(shape.num_numbers)
            width += shape.num_numbers * size
        if num_columns:
            self.embedding = embed_categories(shape, options.embedding_size)
            self.category_scales = ColumnScales(num_columns)
        widths = [width, *options.hidden]
        self.hidden = nn.ModuleList(
            SharedLinear(narrow, wide, members=self.num_members, is_first=place == 0)
            for place, (narrow, wide) in enumerate(pairwise(widths))
        )
        self.dropout = ByteDropout(options.dropout)
        self.head = SeparateLinear(widths[-1], shape.num_outputs, members=self.num_members)

    def find_head(self) -> nn.Module:
        """Return the part that depends on the classes or the target."""
        return self.head

    def fit(
        self, numbers: torch.Tensor | None, places: torch.Tensor | None, targets: torch.Tensor
    ) -> None:
        """Compute bins and scales of columns from training rows."""
        if numbers is not None:
            self.numbers.fit(numbers)
        weights = weigh_columns(numbers, places, targets, shape=self.shape)
        if numbers is not None:
            self.number_scales.scale.copy_(weights[: self.shape.num_numbers])
        if places is not None:
            self.category_scales.scale.copy_(weights[self.shape.num_numbers :])

    def compute(self, numbers: torch.Tensor | None, places: torch.Tensor | None) -> torch.Tensor:
        """Compute (B, M, C) in training, else (B, C), from the inputs that exist."""
        parts = []
        if numbers is not None:
            parts.append(self.number_scales(self.numbers(numbers)))
        if places is not None:
            parts.append(self.category_scales(self.embedding(places)))
        x = (parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)).unsqueeze(1)  # (B, 1, W)
        for layer in self.hidden:
            x = self.dropout(functional.relu(layer(x)))
        outputs: torch.Tensor = self.head(x)  # (B, M, C)
        if self.training:
            return outputs
        if self.is_regression:
            return outputs.mean(dim=1)
        if self.shape.has_labels:
            return _mean_log(outputs.sigmoid()) - _mean_log((-outputs).sigmoid())
        return _mean_log(outputs.softmax(dim=2))


def _mean_log(probabilities: torch.Tensor) -> torch.Tensor:
    """Return the logarithm (B, C) of the members' mean, from (B, M, C)."""
    return probabilities.mean(dim=1).clamp(min=LEAST_PROBABILITY).log()


class PiecewiseLinear(nn.Module):
    """A vector for each number: a linear function within each bin of its column's quantiles.

    It starts as a linear function of the number; training bends it at the bins' borders.
    """

    starts: torch.Tensor
    slopes: torch.Tensor

    def __init__(self, num_numbers: int, *, bins: int, size: int) -> None:
        super().__init__()
        # A bin that does not exist has a slope of zero: it passes nothing on.
        self.register_buffer("starts", torch.zeros(num_numbers, bins))
        self.register_buffer("slopes", torch.zeros(num_numbers, bins))
        self.bends = nn.Parameter(torch.zeros(num_numbers, bins, size))
        self.weight = nn.Parameter(torch.empty(num_numbers, size).uniform_(-1, 1))
        self.bias = nn.Parameter(torch.empty(num_numbers, size).uniform_(-1, 1))

    def fit(self, numbers: torch.Tensor) -> None:
        """Take the quantiles of training rows (N, F) as the bins' borders."""
        shares = torch.linspace(0, 1, self.starts.shape[1] + 1)
        self.starts.zero_()
        self.slopes.zero_()
        for column, values in enumerate(numbers.T):
            borders = find_quantiles(values, shares).to(self.starts)
            num = len(borders) - 1
            self.starts[column, :num] = borders[:-1]
            self.slopes[column, :num] = 1 / borders.diff()

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        """(B, F) -> (B, F, D)."""
        x = numbers.unsqueeze(2)
        shares = ((x - self.starts) * self.slopes).clamp(0, 1)  # (B, F, T), how full each bin is
        bent = torch.bmm(shares.transpose(0, 1), self.bends).transpose(0, 1)
        return bent + x * self.weight + self.bias


class ColumnScales(nn.Module):
    """Multiplies the vector of each column by a number, and joins the vectors."""

    scale: torch.Tensor

    def __init__(self, num_columns: int) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(num_columns))

    def forward(self, embedded: torch.Tensor) -> torch.Tensor:
        """(B, columns, D) -> (B, columns * D)."""
        return (embedded * self.scale.unsqueeze(1)).flatten(1)


class SharedLinear(nn.Module):
    """A linear layer whose matrix the members share, with factors and a bias for each of them.

    Args:
        narrow: Number of inputs.
        wide: Number of outputs.
        members: Number of members.
        is_first: Whether the inputs are those of the whole network. Then the factors are random, so
            that the members differ; in later layers they start at 1.
    """

    def __init__(self, narrow: int, wide: int, *, members: int, is_first: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(narrow, wide, bias=False)
        factors = torch.randn(members, narrow) if is_first else torch.ones(members, narrow)
        self.factors_in = nn.Parameter(factors)
        self.factors_out = nn.Parameter(torch.ones(members, wide))
        limit = narrow**-0.5
        self.bias = nn.Parameter(torch.empty(members, wide).uniform_(-limit, limit))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, M or 1, narrow) -> (B, M, wide)."""
        outputs: torch.Tensor = self.linear(x * self.factors_in)
        return outputs * self.factors_out + self.bias


class SeparateLinear(nn.Module):
    """A separate linear layer for each member."""

    def __init__(self, narrow: int, wide: int, *, members: int) -> None:
        super().__init__()
        limit = narrow**-0.5
        self.weight = nn.Parameter(torch.empty(members, narrow, wide).uniform_(-limit, limit))
        self.bias = nn.Parameter(torch.zeros(members, wide))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, M, narrow) -> (B, M, wide)."""
        return torch.bmm(x.transpose(0, 1), self.weight).transpose(0, 1) + self.bias
