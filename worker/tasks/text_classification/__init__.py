"""The task `text-classification`."""

from worker.tasks.text_classification.setup import open_subject, prepare

__all__ = ["open_subject", "prepare"]
