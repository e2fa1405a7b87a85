"""Each task's behaviour: how its data become batches, what its loss is, and which model is best.

The training loop knows no task; it runs the `Work` that a task prepares.
"""

from typing import Protocol

import torch

from redkiln.spec import JobSpec
from worker.jobdir import Order
from worker.trainer.report import Report
from worker.trainer.tasks import image_classification
from worker.trainer.work import Work


class Prepare(Protocol):
    """Opens an order's data and builds its model on the device."""

    def __call__(
        self, order: Order, spec: JobSpec, *, device: torch.device, report: Report
    ) -> Work:
        """What the loop runs."""


TASKS: dict[str, Prepare] = {image_classification.NAME: image_classification.prepare}
