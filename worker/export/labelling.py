"""Makes a classifier's export one that gives each class its own probability."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from worker.export.exportable import Exportable, Predict
from worker.export.parity import predict_all
from worker.export.scoring.multi_label import MultiLabel, choose_thresholds
from worker.export.scoring.temperature import apply_temperatures, find_label_temperatures
from worker.export.target import Samples

PROBABILITIES = "probabilities"
BATCH = 256
MOST_VALIDATION = 20_000
"""Validation samples that thresholds are chosen on, evenly spaced."""


class Probabilities(nn.Module):
    """A module with logits, and the sigmoid of each, divided by its temperature, behind it.

    Args:
        module: Returns logits (B, K).
        temperatures: (K,) or (1,).
    """

    temperatures: torch.Tensor

    def __init__(self, module: nn.Module, temperatures: Sequence[float] = (1.0,)) -> None:
        super().__init__()
        self.module = module
        self.register_buffer("temperatures", torch.tensor(temperatures, dtype=torch.float32))

    def forward(self, first: torch.Tensor, second: torch.Tensor | None = None) -> torch.Tensor:
        """Return probabilities (B, K) in [0, 1] that do not add up to 1."""
        logits = self.module(first) if second is None else self.module(first, second)
        return torch.sigmoid(logits / self.temperatures)


def give_probabilities(exportable: Exportable) -> Exportable:
    """Return the same model with probabilities instead of logits."""
    return dataclasses.replace(
        exportable,
        module=Probabilities(exportable.module).eval().requires_grad_(False),
        output=PROBABILITIES,
        architecture={**exportable.architecture, "output": PROBABILITIES},
    )


def calibrate_labels(
    exportable: Exportable,
    samples: Samples,
    targets: NDArray[Any],
    *,
    classes: list[str],
    validation: NDArray[np.int64],
) -> tuple[Exportable, MultiLabel]:
    """Return the model with calibrated probabilities, and its scoring; see `fit_labels`."""
    scoring = fit_labels(
        exportable.predict, samples, targets, classes=classes, validation=validation
    )
    assert isinstance(exportable.module, Probabilities)
    module = Probabilities(exportable.module.module, scoring.temperatures)
    module = module.eval().requires_grad_(False)
    return dataclasses.replace(exportable, module=module), scoring


def fit_labels(
    predict: Predict,
    samples: Samples,
    targets: NDArray[Any],
    *,
    classes: list[str],
    validation: NDArray[np.int64],
) -> MultiLabel:
    """Return the scoring with the temperatures and thresholds that suit the validation split.

    Args:
        predict: The trained model, with probabilities and temperatures of 1.
        samples: Samples of all splits.
        targets: (N, K) labels of all samples, 0 or 1.
        classes: Names by label.
        validation: Rows of the validation split; without any, all temperatures are 1 and all
            thresholds 0.5.
    """
    if not len(validation):
        return MultiLabel(classes)
    rows = validation[:: -(-len(validation) // MOST_VALIDATION)]
    found = predict_all(predict, samples, rows, batch_size=BATCH)
    temperatures = find_label_temperatures(found, targets[rows])
    calibrated = apply_temperatures(found, temperatures)
    return MultiLabel(classes, choose_thresholds(calibrated, targets[rows]), temperatures)
