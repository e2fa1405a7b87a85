"""Outputs of torch and of ONNX Runtime on real images, and what they are worth."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from worker.export.confusion import accuracy, cross_entropy
from worker.export.exportable import Exportable
from worker.export.onnx_file import open_session
from worker.export.parity import (
    Difference,
    Logits,
    compare_outputs,
    onnx_predict,
    predict_all,
    torch_predict,
)
from worker.export.samples import ComparedSamples

TORCH_BATCH = 64
ONNX_BATCH = 48
"""Neither the traced size nor torch's; what is left over makes a batch of a third size."""


@dataclass(frozen=True)
class Evaluation:
    """Both runtimes on the same images.

    Attributes:
        pixels: (N, S, S, C) uint8, raw.
        labels: (N,) int64.
        torch_logits: (N, classes).
        num_test: the first so many samples are the test split; only they are scored.
        metrics: of the test split, `accuracy`, `loss` and `accuracy_onnx`.
    """

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]
    torch_logits: Logits
    num_test: int
    difference: Difference
    metrics: dict[str, float]

    @property
    def predicted(self) -> NDArray[np.int64]:
        """Torch's classes of the test split."""
        classes: NDArray[np.int64] = self.torch_logits[: self.num_test].argmax(axis=1)
        return classes


def evaluate_both(
    exportable: Exportable,
    onnx_path: Path,
    *,
    pixels: NDArray[np.uint8],
    labels: NDArray[np.int64],
    samples: ComparedSamples,
    threads: int,
    on_batch: Callable[[], None],
) -> Evaluation:
    """Run the samples through torch and through ONNX Runtime.

    `pixels` and `labels` are those of all decoded images; `on_batch` is called after each batch,
    as a sign of life.

    Raises:
        TrainingFailed: ONNX Runtime cannot load the file.
    """
    chosen, wanted = pixels[samples.rows], labels[samples.rows]
    predict = onnx_predict(open_session(onnx_path, threads=threads))
    reference = predict_all(
        torch_predict(exportable.module), chosen, batch_size=TORCH_BATCH, on_batch=on_batch
    )
    outputs = predict_all(predict, chosen, batch_size=ONNX_BATCH, on_batch=on_batch)
    # One image at a time is how most people will call it.
    singles = predict_all(predict, chosen[:4], batch_size=1)
    difference = compare_outputs(
        np.concatenate([outputs, singles]), np.concatenate([reference, reference[:4]])
    )
    test = slice(0, samples.num_test)
    metrics = {
        "accuracy": accuracy(reference[test], wanted[test]),
        "accuracy_onnx": accuracy(outputs[test], wanted[test]),
        "loss": cross_entropy(reference[test], wanted[test]),
    }
    return Evaluation(chosen, wanted, reference, samples.num_test, difference, metrics)
