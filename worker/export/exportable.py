"""The model to export: a module with its preprocessing, or what another library converts."""

import copy
from collections.abc import Callable, Mapping, Sequence
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
MOST_COMPARED = 64
"""Samples whose compared outputs are kept, of a model with answers."""
BATCH_AXIS: Mapping[int, str] = {0: "batch"}


@dataclass(frozen=True)
class Answers:
    """Outputs that a file has instead of the compared one, such as boxes that are chosen from it.

    A choice turns the smallest difference of two numbers into another answer. So the numbers that
    it is made from are compared, and the answers are matched and scored.

    Attributes:
        names: Names of the file's outputs; the module returns them behind the compared one.
        defaults: Values of the inputs that users can leave out, by name.
        join: Makes one array (B, ...) of the outputs, which is scored.
        split: Turns such an array into the outputs by name.
        agreement: Name of the share of equal answers, for the report.
        least_agreement: Share of equal answers that a verified file has.
        translate: Returns what writes the module's own operators as ONNX, by operator.
        is_compared_kept: Whether the file has the compared output, too.
        most_compared: Samples whose compared outputs may be in memory.
        save_truth: Makes plain arrays of the targets for `parity.npz`; None if they are one.
    """

    names: tuple[str, ...]
    defaults: Mapping[str, NDArray[Any]]
    join: Callable[[Sequence[NDArray[Any]]], NDArray[np.float32]]
    split: Callable[[NDArray[np.float32]], dict[str, NDArray[Any]]]
    agreement: str
    least_agreement: float
    translate: Callable[[], dict[Callable[..., Any], Callable[..., Any]]]
    is_compared_kept: bool = False
    most_compared: int = MOST_COMPARED
    save_truth: Callable[[NDArray[Any]], dict[str, NDArray[Any]]] | None = None


@dataclass(frozen=True)
class Exportable:
    """A module on the CPU, in evaluation mode, with named inputs and an output to compare.

    Attributes:
        examples: Inputs by name, in the order of the module's arguments, for tracing.
        others: Inputs of other sizes along every axis that may vary.
        output: Name of the compared output.
        architecture: The facts that decide whether it can be exported, as JSON, without weights.
        dynamic: For each input the axes that may vary, by name; equal names mean equal sizes. For
            inputs that are not listed only the batch varies.
        write: Writes the module's file, for a module that is not exported by torch; None otherwise.
        answers: Outputs of the file in place of the compared one; None if that is its output.
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
    answers: Answers | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the file's outputs."""
        return (self.output,) if self.answers is None else self.answers.names

    def axes(self) -> dict[str, Mapping[int, str]]:
        """Return the axes of every input that may vary."""
        return {name: self.dynamic.get(name, BATCH_AXIS) for name in self.examples}

    def predict(self, inputs: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Return what torch's outputs are scored by, for arrays in the order of the arguments."""
        found = self._run(inputs)
        return found[0] if self.answers is None else self.answers.join(found[1:])

    def predict_compared(self, inputs: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Return torch's compared output for arrays in the order of the arguments."""
        return self._run(inputs)[0]

    def measure_noise(self, inputs: dict[str, NDArray[Any]]) -> float:
        """Return how far torch's own rounding moves the compared output, relative to its largest.

        It is the difference between float32 and float64.
        """
        exact = copy.deepcopy(self.module).double()
        doubled = [torch.from_numpy(each) for each in inputs.values()]
        with torch.inference_mode():
            found = exact(
                *(each.double() if each.is_floating_point() else each for each in doubled)
            )
        wanted: NDArray[np.float64] = _as_arrays(found)[0]
        distance = np.abs(self.predict_compared(inputs) - wanted).max()
        return float(distance / max(float(np.abs(wanted).max()), 1e-12))

    def _run(self, inputs: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """Run the module, on images with their channels last.

        Only rounding differs, by 1e-6 of the largest output. One core takes 0.46 instead of 0.99 ms
        for an image of cifar-fast, 0.09 instead of 0.23 for amdnet, and 4.7 instead of 6.0 for
        resnet18 (32 pixels, batch 64, torch 2.13, AMD EPYC, November 2026).
        """
        tensors = [torch.from_numpy(each) for each in inputs.values()]
        with torch.inference_mode():
            try:
                return _as_arrays(self.module(*map(_put_channels_last, tensors)))
            except RuntimeError:  # a module may need the usual layout, for `view`
                return _as_arrays(self.module(*tensors))


@dataclass(frozen=True)
class Converted:
    """A model of a library that is not torch, and what writes it as ONNX.

    Attributes:
        predict: Returns the library's outputs for arrays by name.
        write: Writes the file for an operator set.
        output: Name of the output.
        framework: Name of the library, for reports.
    """

    answers: ClassVar[None] = None

    predict: Predict
    write: Callable[[Path, int], None]
    output: str
    framework: str

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the file's outputs."""
        return (self.output,)


def _put_channels_last(tensor: torch.Tensor) -> torch.Tensor:
    is_image = tensor.ndim == 4 and tensor.is_floating_point()
    return tensor.contiguous(memory_format=torch.channels_last) if is_image else tensor


def _as_arrays(found: torch.Tensor | tuple[torch.Tensor, ...]) -> list[NDArray[Any]]:
    parts = (found,) if isinstance(found, torch.Tensor) else found
    return [part.numpy() for part in parts]
