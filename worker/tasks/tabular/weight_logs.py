"""What class weights do to a classifier's probabilities.

A weight makes a class look as probable as if the table had so many more rows of it. Subtracting the
logarithm of its weight from each logit undoes this.

Source: Elkan (2001), The foundations of cost-sensitive learning, theorem 2.
"""

import math

import numpy as np

from redkiln.spec.class_weights import ClassifierTraining, compute_class_weights
from worker.tasks.tabular.opened import TableJob, TabularSpec


def find_weight_logs(job: TableJob, spec: TabularSpec) -> list[float] | None:
    """Return the logarithm of each class's weight; None without weights, or with several labels.

    It is 0 for a class with weight 0, which no number could undo.
    """
    training = spec.training
    if not isinstance(training, ClassifierTraining) or job.table.labels is not None:
        return None
    rows = job.table.split(validation_fraction=training.validation_fraction)["train"]
    classes = job.table.index.classes
    counts = np.bincount(job.table.targets[rows].astype(np.int64), minlength=len(classes)).tolist()
    weights = compute_class_weights(training.class_weights, classes=classes, counts=counts)
    if weights is None:
        return None
    return [math.log(weight) if weight else 0.0 for weight in weights]
