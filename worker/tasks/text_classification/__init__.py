"""The task `text-classification`."""

from worker.tasks.text_classification.setup import open_target, prepare

__all__ = ["open_target", "prepare"]
