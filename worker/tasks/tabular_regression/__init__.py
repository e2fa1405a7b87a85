"""The task `tabular-regression`."""

from worker.tasks.tabular_regression.setup import TASK

prepare = TASK.prepare
prepare_estimator = TASK.prepare_estimator
cross_validate = TASK.cross_validate
open_target = TASK.open_target

__all__ = ["cross_validate", "open_target", "prepare", "prepare_estimator"]
