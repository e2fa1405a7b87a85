"""The task `tabular-regression`."""

from worker.tasks.tabular_regression.setup import open_target, prepare, prepare_estimator

__all__ = ["open_target", "prepare", "prepare_estimator"]
