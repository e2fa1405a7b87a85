"""The task `instance-segmentation`, which is object detection with a mask for each object."""

from worker.tasks.instance_segmentation.export_target import open_target
from worker.tasks.instance_segmentation.setup import prepare

__all__ = ["open_target", "prepare"]
