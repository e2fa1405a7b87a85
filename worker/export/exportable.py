"""The model to export: a module with its preprocessing, or what another library converts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

Predict = Callable[[dict[str, NDArray[Any]]], NDArray[np.float32]]
"""Maps the model's inputs by name to outputs (B, ...)."""

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
        write: Writes the module's file, for a module that is not exported by torch; None otherwise.
        framework: The library whose outputs the file is compared with.
    """

    framework: ClassVar[str] = "torch"

    module: nn.Module
    examples: dict[str, torch.Tensor]
    others: dict[str, torch.Tensor]
    output: str
    architecture: dict[str, Any]
    dynamic: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    write: Callable[[nn.Module, Path], None] | None = None

    def axes(self) -> dict[str, Mapping[int, str]]:
        """Return the axes of every input that may vary."""
        return {name: self.dynamic.get(name, BATCH_AXIS) for name in self.examples}

    def predict(self, inputs: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Return torch's outputs for arrays, which are the module's arguments in order."""
        with torch.inference_mode():
            outputs: NDArray[np.float32] = self.module(
                *map(torch.from_numpy, inputs.values())
            ).numpy()
        return outputs


@dataclass(frozen=True)
class Converted:
    """A model of a library that is not torch, and what writes it as ONNX.

    Attributes:
        predict: Returns the library's outputs for arrays by name.
        write: Writes the file for an operator set.
        output: Name of the output.
        framework: Name of the library, for reports.
    """

    predict: Predict
    write: Callable[[Path, int], None]
    output: str
    framework: str
