"""The task `tabular-classification`."""

from worker.tasks.tabular_classification.setup import open_target, prepare

__all__ = ["open_target", "prepare"]
