"""The task `image-classification`."""

from worker.tasks.image_classification.setup import open_target, prepare

__all__ = ["open_target", "prepare"]
