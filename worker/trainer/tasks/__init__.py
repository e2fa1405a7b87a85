"""Each task's behaviour: the part of the trainer that knows what a job is for.

Most tasks have two functions. `prepare` makes a `Work`: how the data become batches, what the loss
is, and which model is best; the training loop runs it and knows no task. `open_subject` makes a
`Subject` of the trained weights: what goes into the ONNX, and how it is judged; the export child
runs that and knows no task either. A task that trains nothing to export does all of its job itself.
"""

from collections.abc import Mapping
from typing import Protocol

import torch

from redkiln.spec import JobSpec
from worker.export.subject import Subject
from worker.jobdir import JobDir, Order
from worker.trainer.report import Report
from worker.trainer.tasks import (
    benchmark,
    image_classification,
    tabular_classification,
    tabular_regression,
    text_classification,
)
from worker.trainer.work import Work


class TrainedTask(Protocol):
    """A task's module."""

    def prepare(
        self,
        order: Order,
        spec: JobSpec,
        *,
        device: torch.device,
        report: Report,
        reading: str | None = None,
    ) -> Work:
        """Open an order's data and build its model on the device, for the loop.

        Args:
            order: of the job.
            spec: as it was written, or as the checkpoint has it that the run goes on from.
            device: that it trains on.
            report: told what takes time, and what is odd.
            reading: of that checkpoint.
        """

    def open_subject(
        self,
        order: Order,
        spec: JobSpec,
        *,
        weights: Mapping[str, torch.Tensor],
        report: Report,
        reading: str | None = None,
    ) -> Subject:
        """The model with its best weights, and the samples that it is judged on, for the export.

        Args:
            order: that was trained.
            spec: with nothing left at `auto`.
            weights: of the best checkpoint, by the names that the network's state dict had.
            report: of the export.
            reading: of the best checkpoint.
        """


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


TRAINED: dict[str, TrainedTask] = {
    image_classification.NAME: image_classification,
    text_classification.NAME: text_classification,
    tabular_classification.NAME: tabular_classification,
    tabular_regression.NAME: tabular_regression,
}
"""Tasks whose model is trained by the loop, and exported by the export child."""
RUN: dict[str, Run] = {benchmark.NAME: benchmark.run}
"""Tasks that export nothing (`JobSpec.exports`)."""
