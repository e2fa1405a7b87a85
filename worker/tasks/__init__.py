"""The tasks: each folder is one task, with everything that its jobs do differently from others.

A task that trains a model has two functions. `prepare` builds a `TrainingSetup`: how the data
become batches, the loss, and which model is better; the training loop runs it without knowing the
task. `open_target` builds an `ExportTarget` from the trained weights: what goes into the ONNX file,
and how it is scored; the export runs that without knowing the task. A task with models that are
not networks of torch has `prepare_estimator` as well, which builds an `EstimatorSetup`. A task that
exports no model (`JobSpec.exports`) has one function instead, `run`, which does the whole job.
`tabular/` is not a task, but is shared by the two tabular tasks.
"""

import importlib
from typing import Protocol, cast

from worker.export.target import OpenTarget
from worker.trainer.estimators.setup import CrossValidate, PrepareEstimator
from worker.trainer.setup import Prepare, RunTask


class Task(Protocol):
    """A task's folder."""

    prepare: Prepare
    prepare_estimator: PrepareEstimator
    cross_validate: CrossValidate
    open_target: OpenTarget
    run: RunTask


def load_task(name: str) -> Task:
    """Import the folder of a task, `worker/tasks/text_classification` for `text-classification`.

    Only the current job's task is imported, because each task needs other libraries.
    """
    return cast("Task", importlib.import_module(f"worker.tasks.{name.replace('-', '_')}"))
