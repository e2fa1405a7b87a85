"""The task `object-detection`."""

from worker.tasks.object_detection.setup import prepare

__all__ = ["prepare"]
