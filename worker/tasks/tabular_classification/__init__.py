"""The task `tabular-classification`."""

from worker.tasks.tabular_classification.setup import (
    cross_validate,
    open_target,
    prepare,
    prepare_estimator,
)

__all__ = ["cross_validate", "open_target", "prepare", "prepare_estimator"]
