"""The task `tabular-regression`."""

from worker.tasks.tabular_regression.setup import (
    cross_validate,
    open_target,
    prepare,
    prepare_estimator,
)

__all__ = ["cross_validate", "open_target", "prepare", "prepare_estimator"]
