"""Each task's behaviour: the part of the trainer that knows what a job is for.

Most tasks prepare a `Work`: how their data become batches, what their loss is, and which model is
best; the training loop runs it and knows no task. A task that trains nothing to export does all of
its job itself.
"""

from typing import Protocol

import torch

from redkiln.spec import JobSpec
from worker.jobdir import JobDir, Order
from worker.trainer.report import Report
from worker.trainer.tasks import benchmark, image_classification
from worker.trainer.work import Work


class Prepare(Protocol):
    """Opens an order's data and builds its model on the device."""

    def __call__(
        self, order: Order, spec: JobSpec, *, device: torch.device, report: Report
    ) -> Work:
        """What the loop runs."""


class Run(Protocol):
    """Does a job from its start to its end."""

    def __call__(
        self,
        job_dir: JobDir,
        order: Order,
        spec: JobSpec,
        *,
        device: torch.device,
        report: Report,
    ) -> None:
        """Leaves the job's files in `out/`, listed, and then the RESULT event."""


TRAINED: dict[str, Prepare] = {image_classification.NAME: image_classification.prepare}
"""Tasks whose model is trained by the loop, and exported by the export child."""
RUN: dict[str, Run] = {benchmark.NAME: benchmark.run}
"""Tasks that export nothing (`JobSpec.exports`)."""
