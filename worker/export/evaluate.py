"""Runs the trained model and ONNX Runtime on real samples and scores their outputs.

The trained model runs in its own library, torch or scikit-learn, which is the reference.

Shapes: N samples.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.verify import BATCHES, FEW
from redkiln.views.comparison import Threshold
from worker.export.exportable import Converted
from worker.export.onnx_file import open_session
from worker.export.parity import (
    Difference,
    compare_outputs,
    onnx_predict,
    predict_all,
)
from worker.export.samples import ComparedSamples
from worker.export.target import ExportTarget, Outputs, Scored

MOST_VALIDATION = 20_000
"""Validation samples that are read to choose a threshold, evenly spaced."""
TORCH_BATCH = 64
OTHER_BATCH = 4096
"""Batch of another library: each call of a tree ensemble costs the time of thousands of rows."""


@dataclass(frozen=True)
class Evaluation:
    """Results of both runtimes on the same samples.

    Attributes:
        rows: (N,) rows of the samples.
        targets: (N,) their targets.
        outputs: (N, ...) outputs of the reference.
        onnx: (N, ...) outputs of ONNX Runtime in large batches.
        singles: Its outputs for the first samples, one at a time.
        num_test: Number of test samples, which come first; only these are scored.
        metrics: Metrics of the test split, and the headline under ONNX Runtime as `..._onnx`.
        threshold: For two classes, the probability with the highest F1 on validation.
        metric_drop: How much worse the headline is under ONNX Runtime.
    """

    rows: NDArray[np.int64]
    targets: NDArray[Any]
    outputs: Outputs
    onnx: Outputs
    singles: Outputs
    num_test: int
    difference: Difference
    metrics: dict[str, float]
    threshold: Threshold | None
    metric_drop: float

    @property
    def test(self) -> tuple[Outputs, NDArray[Any]]:
        """The reference's outputs and the targets of the test split."""
        return self.outputs[: self.num_test], self.targets[: self.num_test]


def evaluate_both(
    target: ExportTarget,
    onnx_path: Path,
    *,
    compared: ComparedSamples,
    threads: int,
    on_batch: Callable[[], None],
) -> Evaluation:
    """Run some samples through the trained model and through ONNX Runtime.

    `on_batch` is called after each batch, to report progress.

    Raises:
        TrainingFailed: ONNX Runtime cannot load the file.
    """
    samples, scoring, rows = target.samples, target.scoring, compared.rows
    targets = target.targets[rows]
    predict = onnx_predict(open_session(onnx_path, threads=threads))
    reference = predict_all(
        target.exportable.predict,
        samples,
        rows,
        batch_size=_reference_batch(target),
        on_batch=on_batch,
    )
    outputs = predict_all(predict, samples, rows, batch_size=BATCHES[0], on_batch=on_batch)
    # Users have batches of any size, most of them one sample.
    few = [predict_all(predict, samples, rows[:FEW], batch_size=size) for size in BATCHES[1:]]
    found = [outputs, *few]
    both = np.concatenate(found), np.concatenate([reference[: len(some)] for some in found])
    test = slice(0, compared.num_test)
    metrics = scoring.score(reference[test], targets[test])
    onnx = scoring.score(outputs[test], targets[test])[scoring.headline]
    return Evaluation(
        rows=rows,
        targets=targets,
        outputs=reference,
        onnx=outputs,
        singles=few[-1],
        num_test=compared.num_test,
        difference=compare_outputs(*both, agreement=scoring.find_agreement(*both)),
        metrics=metrics | {f"{scoring.headline}_onnx": onnx},
        threshold=_find_threshold(target, (reference[test], targets[test]), on_batch=on_batch),
        metric_drop=scoring.find_drop(metrics[scoring.headline], onnx),
    )


def _find_threshold(
    target: ExportTarget, test: Scored, *, on_batch: Callable[[], None]
) -> Threshold | None:
    rows = target.rows["validation"]
    if not len(rows):
        return None
    predict = target.exportable.predict
    some = rows[:: -(-len(rows) // MOST_VALIDATION)]

    def read_validation() -> Scored:
        outputs = predict_all(
            predict,
            target.samples,
            some,
            batch_size=_reference_batch(target),
            on_batch=on_batch,
        )
        return outputs, target.targets[some]

    return target.scoring.find_threshold(read_validation, test)


def _reference_batch(target: ExportTarget) -> int:
    return OTHER_BATCH if isinstance(target.exportable, Converted) else TORCH_BATCH
