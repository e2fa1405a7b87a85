"""The tasks: each folder here is one, and everything that a job of its kind does differently.

A task that trains a model has two functions. `prepare` builds a `Work`: how the data become
batches, what the loss is, and which model is better; the training loop runs it and knows no task.
`open_target` builds a `Subject` from the trained weights: what goes into the ONNX, and how it is
judged; the export runs that and knows no task either. A task that exports no model
(`JobSpec.exports`) has one function instead, `run`, which does the whole job. `tabular/` is not a
task: its two neighbours share it.
"""

import importlib
from typing import Protocol, cast

from worker.export.target import OpenTarget
from worker.trainer.setup import Prepare, RunTask


class Task(Protocol):
    """A task's folder."""

    prepare: Prepare
    open_target: OpenTarget
    run: RunTask


def load_task(name: str) -> Task:
    """Import the folder of a task, `worker/tasks/text_classification` for `text-classification`.

    Only the task of the job at hand is imported: each brings libraries of its own.
    """
    return cast("Task", importlib.import_module(f"worker.tasks.{name.replace('-', '_')}"))
