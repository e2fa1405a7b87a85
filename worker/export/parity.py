"""Holds ONNX Runtime's outputs against torch's."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.spec.job_spec import Export
from worker.export.target import Arrays, Outputs, Samples

Predict = Callable[[Arrays], Outputs]
"""The model's inputs by name -> (B, ...)."""


@dataclass(frozen=True)
class Difference:
    """How far two sets of outputs are apart.

    Attributes:
        max_abs: largest |onnx - torch|.
        relative: `max_abs` over the largest |torch|.
        agreement: share of samples about which both say the same, where that means something.
    """

    num_samples: int
    max_abs: float
    mean_abs: float
    relative: float
    agreement: float | None = None

    def as_json(self) -> dict[str, Any]:
        """As a dict, without what means nothing."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class GateResult:
    """Whether a model passes its gate, and what it missed."""

    verified: bool
    misses: list[str]


def compare_outputs(
    onnx: Outputs, torch_outputs: Outputs, *, agreement: float | None = None
) -> Difference:
    """The difference of two (N, ...) arrays; anything not finite is infinitely far."""
    distance = np.abs(onnx.astype(np.float64) - torch_outputs.astype(np.float64))
    if not np.isfinite(distance).all():
        distance = np.full_like(distance, np.inf)
    scale = max(float(np.abs(torch_outputs).max()), 1e-12)
    return Difference(
        num_samples=len(onnx),
        max_abs=float(distance.max()),
        mean_abs=float(distance.mean()),
        relative=float(distance.max()) / scale,
        agreement=agreement,
    )


def judge(
    gate: Export, *, difference: Difference, metric_drop: float, words: str | None = None
) -> GateResult:
    """Hold the numbers against the spec's gate.

    Args:
        gate: the spec's `export`.
        difference: of the outputs.
        metric_drop: how much worse the metric is under ONNX Runtime.
        words: the same for people.
    """
    misses = []
    if not difference.relative <= gate.tolerance:
        misses.append(
            f"outputs differ by {difference.relative:.2e} of the largest one, "
            f"more than tolerance {gate.tolerance:.2e}"
        )
    if not metric_drop <= gate.max_metric_drop:
        misses.append(
            f"{words or f'the metric is {metric_drop:.4f} lower'} under ONNX Runtime, "
            f"more than max_metric_drop {gate.max_metric_drop:.4f}"
        )
    return GateResult(verified=not misses, misses=misses)


def torch_predict(module: torch.nn.Module) -> Predict:
    """A module as a function of arrays; they are its arguments in their order."""

    def predict(inputs: Arrays) -> Outputs:
        with torch.inference_mode():
            outputs: Outputs = module(*map(torch.from_numpy, inputs.values())).numpy()
        return outputs

    return predict


def onnx_predict(session: Any) -> Predict:
    """An ONNX Runtime session as a function of arrays."""

    def predict(inputs: Arrays) -> Outputs:
        outputs: Outputs = session.run(None, inputs)[0]
        return outputs

    return predict


def predict_all(
    predict: Predict,
    samples: Samples,
    rows: NDArray[np.int64],
    *,
    batch_size: int,
    on_batch: Callable[[], None] = lambda: None,
) -> Outputs:
    """Outputs for some samples, in batches; `on_batch` is called after each."""
    outputs = []
    for start in range(0, len(rows), batch_size):
        raw = samples.get(rows[start : start + batch_size])
        outputs.append(predict(samples.feed(raw)))
        on_batch()
    return np.concatenate(outputs)
