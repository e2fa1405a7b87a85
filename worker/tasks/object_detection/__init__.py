"""The task `object-detection`."""

from worker.tasks.object_detection.export_target import open_target
from worker.tasks.object_detection.setup import prepare

__all__ = ["open_target", "prepare"]
