"""The task `benchmark`."""

from worker.tasks.benchmark.run import run

__all__ = ["run"]
