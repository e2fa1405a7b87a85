"""Initial weights of a tabular model: random, or those of another job."""

from dataclasses import dataclass

from pydantic import ValidationError

from redkiln.spec.boosting import BOOSTING
from redkiln.spec.tabular import TabularModel
from worker.jobdir import Order
from worker.trainer.models.from_job import (
    JobCheckpoint,
    open_job_checkpoint,
    refuse_start,
    take_weights,
)
from worker.trainer.models.table_network import TabularNetwork
from worker.trainer.tables.reading import TableReading


@dataclass(frozen=True)
class TableStart:
    """A model of a table before its rows are read.

    Attributes:
        model: Model from the spec; with another job's options if it starts from one.
        reading: How to read rows; None if that is learnt from the table.
        job: The job whose weights are still to be loaded, or None.
    """

    model: TabularModel
    reading: TableReading | None = None
    job: JobCheckpoint | None = None

    @property
    def whose(self) -> str:
        """The owner of the reading, for messages."""
        return self.job.job_id if self.job is not None else "this job's checkpoint"


def find_table_start(model: TabularModel, order: Order, *, kept: str | None) -> TableStart:
    """Find where weights and the reading of rows come from.

    Args:
        model: Model from the spec, possibly resolved already.
        order: Order of the job.
        kept: Reading from the checkpoint that a run resumes from, or that is exported.

    Raises:
        TrainingFailed: the other job's weights are not available or are of another network.
    """
    if kept is not None:
        return TableStart(model, TableReading.model_validate_json(kept))
    if model.pretrained is None:
        return TableStart(model)
    job = open_job_checkpoint(model.pretrained, order)
    theirs = job.parse_model(TabularModel)
    if theirs.name == BOOSTING:
        message = f"{job.job_id} trained {BOOSTING}, and no job can start from trees"
        raise refuse_start(f"{message}; remove model.pretrained")
    if model.name not in ("auto", theirs.name):
        message = (
            f"{job.job_id} trained {theirs.name}, not {model.name}; remove model.name, or set it "
            f"to {theirs.name}"
        )
        raise refuse_start(message, "/model/name")
    try:
        reading = TableReading.model_validate_json(job.reading)
    except ValidationError as error:
        message = f"the description of {job.job_id}'s columns cannot be read: {error}"
        raise refuse_start(message) from error
    origin = job.find_origin(model.initial_weights)
    found = theirs.model_copy(
        deep=True, update={"pretrained": model.pretrained, "initial_weights": origin}
    )
    return TableStart(found, reading, job)


def take_table_weights(
    network: TabularNetwork, job: JobCheckpoint, *, is_target_same: bool
) -> list[str]:
    """Load another job's weights and return the names of those that stay random.

    Args:
        network: Network that receives the weights.
        job: The other job.
        is_target_same: Whether a regression's values mean the same; otherwise its head is new.

    Raises:
        TrainingFailed: none of the weights can be used.
    """
    remedy = (
        "all weights of a linear model depend on the classes; start from a job with the same "
        "number of classes, or remove model.pretrained to train from scratch"
    )
    head = network.find_head()
    if head is None and not is_target_same:
        message = (
            f"{job.job_id} predicts another column, and all weights of a linear model depend on "
            "it; remove model.pretrained to train from scratch"
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
