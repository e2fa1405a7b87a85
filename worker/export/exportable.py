"""The module to export: a network including its preprocessing, on the CPU."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

TRACED_BATCH = 2
"""Batch size of the traced examples; torch.export treats 0 and 1 as constants."""
OTHER_BATCH = 5
"""Batch size of the examples that a rehearsal compares on."""
BATCH_AXIS: Mapping[int, str] = {0: "batch"}


@dataclass(frozen=True)
class Exportable:
    """A module on the CPU, in evaluation mode, with named inputs and one output.

    Attributes:
        examples: Inputs by name, in the order of the module's arguments, for tracing.
        others: Inputs of other sizes along every axis that may vary.
        output: Name of the output.
        architecture: The facts that decide whether it can be exported, as JSON, without weights.
        dynamic: For each input the axes that may vary, by name; equal names mean equal sizes. For
            inputs that are not listed only the batch varies.
    """

    module: nn.Module
    examples: dict[str, torch.Tensor]
    others: dict[str, torch.Tensor]
    output: str
    architecture: dict[str, Any]
    dynamic: Mapping[str, Mapping[int, str]] = field(default_factory=dict)

    def axes(self) -> dict[str, Mapping[int, str]]:
        """Return the axes of every input that may vary."""
        return {name: self.dynamic.get(name, BATCH_AXIS) for name in self.examples}
