"""How much each column of a table says about the target by itself.

A network that sees hundreds of columns in few rows learns their noise. Scaling a column down before
training makes the network use it less, which helps as little or as much as it is noise.

Shapes: N rows, F prepared numbers, K categorical columns.
"""

import torch
from torch.nn import functional

from worker.trainer.models.table_network import TableShape

NUM_GROUPS = 8
"""Most groups of a numeric column's values."""
ROWS_A_GROUP = 25
DOUBT = 10.0
"""How strongly a column's signal is doubted if there are as many columns as rows."""
LEAST_SCALE = 0.005
"""Least scale of a column, relative to one with a strong signal, if there are as many columns as
rows; with more rows it grows in proportion, up to 1. A column may matter only with others."""


def find_quantiles(values: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    """Return the different quantiles of values (N,) at some shares of them, in rising order."""
    ordered = values.sort().values
    places = (shares.to(values.device) * (len(ordered) - 1)).round().long()
    different: torch.Tensor = torch.unique_consecutive(ordered[places])
    return different


def weigh_columns(
    numbers: torch.Tensor | None,
    places: torch.Tensor | None,
    targets: torch.Tensor,
    *,
    shape: TableShape,
) -> torch.Tensor:
    """Return the scale of each column (F + K,), with a mean square of 1.

    Args:
        numbers: Prepared numbers (N, F), if there are any.
        places: Places of categories (N, K), if there are any.
        targets: Labels (N,) int64, or (N, C) with 1 for each of several; or standardised values
            (N,) float32.
        shape: Shape of the table.
    """
    if shape.num_classes is None:
        errors = targets.float().unsqueeze(1)
    elif targets.ndim == 2:
        errors = targets.float()
    else:
        errors = functional.one_hot(targets, shape.num_classes).float()
    errors = errors - errors.mean(dim=0)  # (N, classes or 1)
    groups = []
    if numbers is not None:
        groups += [_group(values) for values in numbers.T]
    if places is not None:
        firsts = torch.tensor(shape.unknown_places, device=places.device)
        groups += [codes.long() for codes in (places - firsts).T]
    ratios = torch.tensor([find_variance_ratio(column, errors) for column in groups])
    return scale_by_ratio(ratios, num_rows=len(targets)).to(targets.device)


def find_variance_ratio(groups: torch.Tensor, errors: torch.Tensor) -> float:
    """Return the F statistic of a column: the target's variance between groups over that within.

    Without any relation it is about 1, however many groups and rows there are.

    Args:
        groups: Group of each row (N,) int64.
        errors: Targets minus their mean (N, outputs).
    """
    counts = torch.bincount(groups)
    num_groups, num_rows = int((counts > 0).sum()), len(groups)
    if num_groups < 2 or num_rows <= num_groups:
        return 0.0
    sums = torch.zeros(len(counts), errors.shape[1], device=errors.device)
    sums.index_add_(0, groups, errors)
    between = (sums.square() / counts.clamp(min=1).unsqueeze(1)).sum()
    within = (errors.square().sum() - between).clamp(min=1e-9)
    return float((between / (num_groups - 1)) / (within / (num_rows - num_groups)))


def scale_by_ratio(ratios: torch.Tensor, *, num_rows: int) -> torch.Tensor:
    """Turn F statistics (columns,) into scales with a mean square of 1."""
    columns_a_row = len(ratios) / num_rows
    signal = (ratios - 1).clamp(min=0).sqrt()
    share = signal / (signal + (DOUBT * columns_a_row) ** 0.5)
    scales = share.square().clamp(min=min(1.0, LEAST_SCALE / columns_a_row))
    scaled: torch.Tensor = scales / scales.square().mean().sqrt()
    return scaled


def _group(values: torch.Tensor) -> torch.Tensor:
    num = min(NUM_GROUPS, max(2, len(values) // ROWS_A_GROUP))
    borders = find_quantiles(values, torch.linspace(0, 1, num + 1)[1:-1])
    return torch.bucketize(values.contiguous(), borders)
