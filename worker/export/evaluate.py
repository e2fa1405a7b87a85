"""Runs the trained model and ONNX Runtime on real samples and scores their outputs.

The trained model runs in its own library, torch or scikit-learn, which is the reference.

Shapes: N samples.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.verify import BATCHES, FEW
from redkiln.views.comparison import Threshold, ThresholdChoice
from worker.export.exportable import MOST_COMPARED, Converted, Exportable
from worker.export.onnx_file import open_session
from worker.export.parity import (
    Difference,
    compare_outputs,
    onnx_predict,
    predict_all,
)
from worker.export.samples import ComparedSamples
from worker.export.scoring.threshold import score_threshold
from worker.export.target import ExportTarget, Outputs, Scored

MOST_VALIDATION = 20_000
"""Validation samples that are read to choose a threshold, evenly spaced."""
TORCH_BATCH = 64
OTHER_BATCH = 4096
"""Batch of another library: each call of a tree ensemble costs the time of thousands of rows."""
SMALL_TORCH_BATCH, SMALL_ONNX_BATCH = 16, 12
"""The same for models with answers, whose images and outputs are large."""


@dataclass(frozen=True)
class Evaluation:
    """Results of both runtimes on the same samples.

    Attributes:
        rows: (N,) rows of the samples.
        targets: (N,) their targets.
        outputs: (N, ...) outputs of the reference; of samples that only the file answered, its own.
        onnx: (N, ...) outputs of ONNX Runtime in large batches.
        few: Its outputs for the first samples in small batches, one at a time last.
        num_test: Number of test samples, which come first; only these are scored.
        metrics: Metrics of the test split, and the headline under ONNX Runtime as `..._onnx`.
        threshold: For two classes, the probability with the highest F1 on held-out samples.
        metric_drop: How much worse the headline is under ONNX Runtime.
    """

    rows: NDArray[np.int64]
    targets: NDArray[Any]
    outputs: Outputs
    onnx: Outputs
    few: Sequence[Outputs]
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
    by_folds: ThresholdChoice | None = None,
) -> Evaluation:
    """Run some samples through the trained model and through ONNX Runtime.

    `on_batch` is called after each batch, to report progress. `by_folds` is the decision threshold
    that cross-validation chose; without it, it is chosen on the validation split.

    Raises:
        TrainingFailed: ONNX Runtime cannot load the file.
    """
    samples, scoring, rows = target.samples, target.scoring, compared.rows
    targets = target.targets[rows]
    session = open_session(onnx_path, threads=threads)
    predict = onnx_predict(session, target.exportable.answers)
    batch_size = BATCHES[0] if target.exportable.answers is None else SMALL_ONNX_BATCH
    outputs = predict_all(predict, samples, rows, batch_size=batch_size, on_batch=on_batch)
    # Users have batches of any size, most of them one sample.
    few = [predict_all(predict, samples, rows[:FEW], batch_size=size) for size in BATCHES[1:]]
    reference, places = _answer_as_trained(target, compared, outputs, on_batch=on_batch)
    both = (
        np.concatenate([outputs[places], *few]),
        np.concatenate([reference[places], *(reference[: len(some)] for some in few)]),
    )
    test, compared_test = slice(0, compared.num_test), places[places < compared.num_test]
    metrics = scoring.score(reference[test], targets[test])
    onnx = scoring.score(outputs[test], targets[test])[scoring.headline]
    before, after = (
        scoring.score(some[compared_test], targets[compared_test])[scoring.headline]
        for some in (reference, outputs)
    )
    return Evaluation(
        rows=rows,
        targets=targets,
        outputs=reference,
        onnx=outputs,
        few=few,
        num_test=compared.num_test,
        difference=compare_outputs(
            *(_run_compared(target, onnx_path, rows, threads=threads) or both),
            agreement=scoring.find_agreement(*both),
        ),
        metrics=metrics | {f"{scoring.headline}_onnx": onnx},
        threshold=_find_threshold(
            target, (reference[test], targets[test]), by_folds=by_folds, on_batch=on_batch
        ),
        metric_drop=scoring.find_drop(before, after),
    )


def _answer_as_trained(
    target: ExportTarget,
    compared: ComparedSamples,
    outputs: Outputs,
    *,
    on_batch: Callable[[], None],
) -> tuple[Outputs, NDArray[np.int64]]:
    """Return the outputs of the trained model, and the places of those that it computed itself.

    If the file repeats its answers to the chosen samples, the file's answers are taken for the
    others. Otherwise the trained model computes all of them.

    Args:
        target: The trained model and its samples.
        compared: The samples.
        outputs: (N, ...) outputs of the file.
        on_batch: Called after each batch.
    """

    def run(rows: NDArray[np.int64]) -> Outputs:
        batch_size = _reference_batch(target)
        predict = target.exportable.predict
        return predict_all(predict, target.samples, rows, batch_size=batch_size, on_batch=on_batch)

    places = compared.places
    reference = run(compared.rows[places])
    if len(places) == len(outputs):
        return reference, places
    if not _is_repeated(target, outputs[places], reference):
        return run(compared.rows), np.arange(len(outputs))
    answers = outputs.copy()
    answers[places] = reference
    return answers, places


def _is_repeated(target: ExportTarget, outputs: Outputs, reference: Outputs) -> bool:
    """Return whether outputs of the file are those of the trained model, as the gate sees them."""
    answers = target.exportable.answers
    if answers is None:
        return compare_outputs(outputs, reference).relative <= target.spec.export.tolerance
    agreement = target.scoring.find_agreement(outputs, reference)
    return agreement is None or agreement >= answers.least_agreement


def _run_compared(
    target: ExportTarget, onnx_path: Path, rows: NDArray[np.int64], *, threads: int
) -> tuple[Outputs, Outputs] | None:
    """Return the compared outputs of both runtimes, if the file returns answers instead.

    They are large, so a part of the samples has to suffice.
    """
    exportable = target.exportable
    if not isinstance(exportable, Exportable) or exportable.answers is None:
        return None
    num = min(MOST_COMPARED, exportable.answers.most_compared, len(rows))
    some = rows[np.linspace(0, len(rows) - 1, num).astype(np.int64)]
    session = open_session(onnx_path, threads=threads, compared=exportable.output)
    run = partial(predict_all, samples=target.samples, rows=some)
    reference = run(exportable.predict_compared, batch_size=SMALL_TORCH_BATCH)
    return run(onnx_predict(session), batch_size=SMALL_ONNX_BATCH), reference


def _find_threshold(
    target: ExportTarget,
    test: Scored,
    *,
    by_folds: ThresholdChoice | None,
    on_batch: Callable[[], None],
) -> Threshold | None:
    """Score the threshold that was chosen on most samples."""
    if by_folds is None and (held_out := target.held_out) is not None:
        by_folds = target.scoring.choose_threshold(lambda: held_out)
    if by_folds is not None:
        return score_threshold(by_folds, test, chosen_on="folds")
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

    choice = target.scoring.choose_threshold(read_validation)
    return None if choice is None else score_threshold(choice, test, chosen_on="validation")


def _reference_batch(target: ExportTarget) -> int:
    if isinstance(target.exportable, Converted):
        return OTHER_BATCH
    return TORCH_BATCH if target.exportable.answers is None else SMALL_TORCH_BATCH
