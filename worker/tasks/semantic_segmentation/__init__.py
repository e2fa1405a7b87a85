"""The task `semantic-segmentation`."""

from worker.tasks.semantic_segmentation.export_target import open_target
from worker.tasks.semantic_segmentation.setup import prepare

__all__ = ["open_target", "prepare"]
