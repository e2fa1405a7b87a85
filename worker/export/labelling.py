"""Makes a classifier's export one that gives each class its own probability."""

import dataclasses
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from worker.export.exportable import Exportable
from worker.export.parity import predict_all
from worker.export.scoring.multi_label import MultiLabel, choose_thresholds
from worker.export.target import Samples

PROBABILITIES = "probabilities"
BATCH = 256
MOST_VALIDATION = 20_000
"""Validation samples that thresholds are chosen on, evenly spaced."""


class Probabilities(nn.Module):
    """A module with logits, and the sigmoid of each behind it."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, first: torch.Tensor, second: torch.Tensor | None = None) -> torch.Tensor:
        """Return probabilities (B, K) in [0, 1] that do not add up to 1."""
        logits = self.module(first) if second is None else self.module(first, second)
        return torch.sigmoid(logits)


def give_probabilities(exportable: Exportable) -> Exportable:
    """Return the same model with probabilities instead of logits."""
    return dataclasses.replace(
        exportable,
        module=Probabilities(exportable.module).eval().requires_grad_(False),
        output=PROBABILITIES,
        architecture={**exportable.architecture, "output": PROBABILITIES},
    )


def build_label_scoring(
    exportable: Exportable,
    samples: Samples,
    targets: NDArray[Any],
    *,
    classes: list[str],
    validation: NDArray[np.int64],
) -> MultiLabel:
    """Return the scoring with the thresholds that suit the validation split.

    Args:
        exportable: The trained model, with probabilities.
        samples: Samples of all splits.
        targets: (N, K) labels of all samples, 0 or 1.
        classes: Names by label.
        validation: Rows of the validation split; without any, all thresholds are 0.5.
    """
    if not len(validation):
        return MultiLabel(classes)
    rows = validation[:: -(-len(validation) // MOST_VALIDATION)]
    probabilities = predict_all(exportable.predict, samples, rows, batch_size=BATCH)
    return MultiLabel(classes, choose_thresholds(probabilities, targets[rows]))
