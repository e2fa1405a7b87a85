"""The task `tabular-classification`."""

from worker.tasks.tabular_classification.setup import open_target, prepare, prepare_estimator

__all__ = ["open_target", "prepare", "prepare_estimator"]
