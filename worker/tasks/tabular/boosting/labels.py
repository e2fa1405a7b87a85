"""Trees for rows with several labels: their weights, their scores, and their file.

Shapes: N rows, K labels, B batch.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.label_metrics import score_once
from redkiln.spec.class_weights import ClassWeights, compute_label_weights
from worker.export.exportable import Converted
from worker.export.labelling import PROBABILITIES, fit_labels
from worker.export.scoring.multi_label import MultiLabel
from worker.export.target import Arrays, Outputs, Samples
from worker.tasks.tabular.boosting.graph import TreeGraph
from worker.tasks.tabular.boosting.trees import Raw, join_inputs, predict_raw
from worker.tasks.tabular.opened import TableJob
from worker.trainer.scoring.labels import LABEL_METRICS


def weigh_labels(
    weights: ClassWeights | None, labels: NDArray[Any], classes: Sequence[str]
) -> NDArray[np.float64] | None:
    """Return the weight of each label of each training row (N, K); None if all count the same."""
    counts = labels.sum(axis=0).astype(np.int64).tolist()
    found = compute_label_weights(weights, classes=classes, counts=counts, num=len(labels))
    return None if found is None else np.where(labels > 0, np.array(found), 1.0)


def score_labels(labels: NDArray[Any], raw: Raw) -> dict[str, float]:
    """Return the metrics of the validation rows with thresholds of 0.5; undefined ones are 0."""
    scores = score_once(_to_probabilities(raw), labels)
    return {name: scores.get(name.removeprefix("val/"), 0.0) for name in LABEL_METRICS}


def convert_labels(
    model: Any, job: TableJob, samples: Samples, validation: NDArray[np.int64]
) -> tuple[Converted, MultiLabel]:
    """Return the calibrated trees, and their scoring."""
    assert job.table.labels is not None
    classes = job.table.index.classes
    plain = _convert(model, job, [1.0] * len(classes))
    labels = job.table.labels
    scoring = fit_labels(plain.predict, samples, labels, classes=classes, validation=validation)
    return _convert(model, job, scoring.temperatures), scoring


def _convert(model: Any, job: TableJob, temperatures: list[float]) -> Converted:
    graph = TreeGraph(
        model=model,
        num_categories=[len(column.categories) for column in job.table.categorical],
        num_numbers=len(job.table.numeric),
        num_classes=job.shape.num_classes,
        target=None,
        temperature=temperatures,
    )
    return Converted(
        predict=partial(_predict, model, np.array(temperatures)),
        write=graph.write,
        output=PROBABILITIES,
        framework="scikit-learn",
    )


def _predict(model: Any, temperatures: NDArray[np.float64], inputs: Arrays) -> Outputs:
    """Return what the file returns (B, K), computed by scikit-learn."""
    return _to_probabilities(predict_raw(model, join_inputs(inputs)) / temperatures)


def _to_probabilities(raw: Raw) -> NDArray[np.float32]:
    return np.asarray(1 / (1 + np.exp(-raw)), dtype=np.float32)
