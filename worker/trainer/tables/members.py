"""Training of a network that is an ensemble: each member on its own loss, in larger batches."""

from collections.abc import Callable

import torch

from worker.trainer.models.table_network import TabularNetwork

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

BATCH_SIZES = (32, 1024)
BATCHES_AN_EPOCH = 25
MOST_FITTING_ROWS = 100_000
"""Most training rows that a network computes its bins and scales from."""


def average_losses(loss: Loss, network: TabularNetwork) -> Loss:
    """Return a loss that is the mean over all members where there are outputs of each.

    Args:
        loss: Mean loss of outputs (B, C) and labels (B,) or (B, C), or of values (B,) and targets
            (B,).
        network: The network; in training an ensemble returns (B, members, C) or (B, members).
    """
    usual = 1 if network.is_regression else 2

    def average(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if outputs.ndim == usual:
            return loss(outputs, targets)
        return loss(outputs.flatten(0, 1), targets.repeat_interleave(outputs.shape[1], dim=0))

    return average


def choose_ensemble_batch(num_train: int) -> int:
    """Return the batch size of an ensemble: a power of two, with enough batches in an epoch.

    It is not measured: the members already fill a step, so its time grows with the batch.
    """
    smallest, largest = BATCH_SIZES
    wanted = max(smallest, min(largest, num_train // BATCHES_AN_EPOCH))
    return min(num_train, 1 << (wanted.bit_length() - 1))


def spread_rows(rows: torch.Tensor) -> torch.Tensor:
    """Return evenly spaced rows, as many as `TabularNetwork.fit` needs."""
    if len(rows) <= MOST_FITTING_ROWS:
        return rows
    places = torch.linspace(0, len(rows) - 1, MOST_FITTING_ROWS, device=rows.device)
    return rows[places.round().long()]
