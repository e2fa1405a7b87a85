"""Predictions of a mean by a model of logarithms.

The exponential of a mean logarithm is about the median of the target, which is below its mean.
Multiplying by the mean of the exponentials of the errors corrects that (Duan 1983, Smearing
estimate: a nonparametric retransformation method). The errors are those of the validation split,
less their own mean, which so few rows do not know well.

Source of its effect: bench/results/2026-11-29-log-target.md.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from redkiln.tasks.tabular_regression import TabularRegressionTraining
from worker.export.exportable import Predict
from worker.export.target import Samples
from worker.tasks.tabular.opened import TableJob, TabularSpec
from worker.trainer.tables.target_scale import find_log_errors, find_smearing

LEAST_ROWS = 20
"""Validation rows below which the factor is 1."""


def smear(
    job: TableJob,
    spec: TabularSpec,
    *,
    predict: Predict,
    samples: Samples,
    validation: NDArray[np.int64],
) -> TableJob:
    """Return the job with the factor in its scale, if it minimises square errors of logarithms.

    Args:
        job: The opened table.
        spec: The resolved spec.
        predict: The model, without a factor.
        samples: Rows of all splits.
        validation: Rows of the validation split.
    """
    if job.target is None or not job.is_log or len(validation) < LEAST_ROWS:
        return job
    if not isinstance(spec.training, TabularRegressionTraining) or spec.training.loss != "mse":
        return job
    found = predict(samples.feed(samples.get(validation)))
    errors = find_log_errors(found, job.table.targets[validation].astype(np.float64))
    return replace(job, target=replace(job.target, smearing=find_smearing(errors)))
