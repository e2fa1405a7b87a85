"""The task `image-classification`."""

from worker.tasks.image_classification.setup import open_subject, prepare

__all__ = ["open_subject", "prepare"]
