"""What a model of a table starts from: random weights, or another job's."""

from dataclasses import dataclass

from pydantic import ValidationError

from redkiln.spec.tabular import TabularModel
from worker.jobdir import Order
from worker.trainer.models.from_job import (
    JobCheckpoint,
    open_job_checkpoint,
    refuse_start,
    take_weights,
)
from worker.trainer.models.tabular import Mlp, TabularNetwork
from worker.trainer.tables.reading import TableReading


@dataclass(frozen=True)
class TableStart:
    """A model of a table before its rows are read.

    Attributes:
        model: of the spec; with another job's options where it starts from one.
        reading: that rows are to be read by; None where it is learnt from them.
        job: holds first weights that are still to be taken.
    """

    model: TabularModel
    reading: TableReading | None = None
    job: JobCheckpoint | None = None

    @property
    def whose(self) -> str:
        """Whom the reading is of, for people."""
        return self.job.job_id if self.job is not None else "this job's checkpoint"


def find_table_start(model: TabularModel, order: Order, *, kept: str | None) -> TableStart:
    """Settle where weights and the reading of rows come from.

    Args:
        model: of the spec, perhaps resolved already.
        order: of the job.
        kept: reading of the checkpoint that a run goes on from, or that is exported.

    Raises:
        TrainingFailed: the other job's are not to be had, or are of another network.
    """
    if kept is not None:
        return TableStart(model, TableReading.model_validate_json(kept))
    if model.pretrained is None:
        return TableStart(model)
    job = open_job_checkpoint(model.pretrained, order)
    theirs = job.parse_model(TabularModel)
    if model.name not in ("auto", theirs.name):
        message = f"{job.job_id} trained {theirs.name}, not {model.name}; leave model.name away"
        raise refuse_start(message, "/model/name")
    try:
        reading = TableReading.model_validate_json(job.reading)
    except ValidationError as error:
        message = f"what {job.job_id} says of its columns cannot be read: {error}"
        raise refuse_start(message) from error
    origin = job.find_origin(model.initial_weights)
    found = theirs.model_copy(
        deep=True, update={"pretrained": model.pretrained, "initial_weights": origin}
    )
    return TableStart(found, reading, job)


def take_table_weights(
    network: TabularNetwork, job: JobCheckpoint, *, is_target_same: bool
) -> list[str]:
    """Take another job's weights over; the names of those that stay random.

    Args:
        network: that takes them.
        job: that has them.
        is_target_same: values of a regression mean the same; its head is new otherwise.

    Raises:
        TrainingFailed: nothing would be left of them.
    """
    remedy = (
        "a linear model has no part that classes do not share; start from a job with as many of "
        "them, or train from the start"
    )
    head = network.head if isinstance(network, Mlp) else None
    if head is None and not is_target_same:
        message = (
            f"{job.job_id} predicts another column, and a linear model has no part that does not "
            "depend on it; train from the start"
        )
        raise refuse_start(message)
    return take_weights(
        network,
        job,
        head=head,
        is_head_new=not is_target_same,
        remedy=remedy,
        pointer="/model/pretrained",
    )
