"""The task `tabular-classification`."""

from worker.tasks.tabular_classification.setup import open_subject, prepare

__all__ = ["open_subject", "prepare"]
