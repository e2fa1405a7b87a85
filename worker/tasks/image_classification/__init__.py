"""The task `image-classification`."""

from worker.tasks.image_classification.export_target import open_target
from worker.tasks.image_classification.setup import prepare

__all__ = ["open_target", "prepare"]
