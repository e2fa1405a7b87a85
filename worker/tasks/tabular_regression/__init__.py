"""The task `tabular-regression`."""

from worker.tasks.tabular_regression.setup import open_subject, prepare

__all__ = ["open_subject", "prepare"]
