"""Compares ONNX Runtime's outputs with those of the library that trained the model.

Shapes: N samples, B batch.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.compare import compare
from redkiln.predict.session import name_input, run_session
from redkiln.spec.exports import Export
from worker.export.exportable import Answers, Predict
from worker.export.target import Arrays, Outputs, Samples


@dataclass(frozen=True)
class Difference:
    """The difference between two sets of outputs.

    Attributes:
        max_abs: Largest |onnx - reference|.
        mean_abs: Mean |onnx - reference|.
        relative: `max_abs` divided by the largest |reference|.
        agreement: Share of samples with the same answer; None if that is not meaningful.
    """

    num_samples: int
    max_abs: float
    mean_abs: float
    relative: float
    agreement: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return a dict without fields that are None."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class GateResult:
    """Whether a model passes its gate, what it missed, and likely causes."""

    verified: bool
    misses: list[str]
    suspicions: list[str] = field(default_factory=list)

    def describe(self) -> str:
        """Return the misses and the likely causes in one line."""
        causes = "".join(f". Possible cause: {text}" for text in self.suspicions)
        return "; ".join(self.misses) + causes


def compare_outputs(
    onnx: Outputs, reference: Outputs, *, agreement: float | None = None
) -> Difference:
    """Return the difference of two (N, ...) arrays; non-finite values count as infinite.

    Of objects with masks, the scores of matched ones are compared.
    """
    if reference.dtype == object:
        found = compare(onnx, reference)
        numbers = found.max_abs, found.mean_abs, found.relative
        return Difference(len(onnx), *numbers, agreement=agreement)
    distance = np.abs(onnx.astype(np.float64) - reference.astype(np.float64))
    if not np.isfinite(distance).all():
        distance = np.full_like(distance, np.inf)
    scale = max(float(np.abs(reference).max()), 1e-12)
    return Difference(
        num_samples=len(onnx),
        max_abs=float(distance.max()),
        mean_abs=float(distance.mean()),
        relative=float(distance.max()) / scale,
        agreement=agreement,
    )


def judge(
    gate: Export,
    *,
    difference: Difference,
    metric_drop: float,
    words: str | None = None,
    least_agreement: float = 0.0,
) -> GateResult:
    """Compare the numbers with the spec's gate.

    Args:
        gate: The spec's `export`.
        difference: Difference of the outputs.
        metric_drop: How much worse the metric is under ONNX Runtime.
        words: Description of the drop for the user.
        least_agreement: Share of answers that must be the same.
    """
    misses = []
    if not difference.relative <= gate.tolerance:
        misses.append(
            f"outputs differ by up to {difference.relative:.2e} of the largest output, "
            f"more than tolerance {gate.tolerance:.2e}"
        )
    if not metric_drop <= gate.max_metric_drop:
        misses.append(
            f"{words or f'the metric is {metric_drop:.4f} lower'} under ONNX Runtime, "
            f"more than max_metric_drop {gate.max_metric_drop:.4f}"
        )
    if difference.agreement is not None and not difference.agreement >= least_agreement:
        misses.append(
            f"only {difference.agreement:.2%} of the answers are the same, less than the required "
            f"{least_agreement:.2%}"
        )
    return GateResult(verified=not misses, misses=misses)


def onnx_predict(session: Any, answers: Answers | None = None) -> Predict:
    """Turn an ONNX Runtime session into a function of arrays.

    Args:
        session: The session.
        answers: The file's outputs, which are joined; None if it has one.
    """

    def predict(inputs: Arrays) -> Outputs:
        outputs: Outputs = (
            run_session(session, inputs)
            if answers is None
            else answers.join(session.run(list(answers.names), name_input(session, inputs)))
        )
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
    """Return the outputs for some samples, computed in batches; `on_batch` is called after each."""
    outputs = []
    for start in range(0, len(rows), batch_size):
        raw = samples.get(rows[start : start + batch_size])
        outputs.append(predict(samples.feed(raw)))
        on_batch()
    return np.concatenate(outputs)
