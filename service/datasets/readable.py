"""Which data sets a job can read: valid ones and, for scripts, uploads that were refused."""

from typing import Any

from sqlmodel import col

from redkiln.tasks.script import NAME as SCRIPT
from redkiln.views.dataset import DatasetStatus
from service.datasets.models import Dataset
from service.jobs.models import Job
from service.jobs.undecided import UNDECIDED


def is_refused_for(task: str, dataset: Dataset) -> bool:
    """Return whether jobs of a task cannot use a data set, because its validation refused it.

    A script reads an upload as it was sent, so it can use one that no other task can train on.
    """
    return dataset.status == DatasetStatus.INVALID and not (
        task == SCRIPT and dataset.kind == "archive"
    )


def has_refused() -> Any:
    """Return `is_refused_for` as an SQL condition on jobs joined with data sets."""
    return (col(Dataset.status) == DatasetStatus.INVALID) & ~_is_script_with_upload()


def has_what_it_reads() -> Any:
    """Return the SQL condition, on jobs joined with data sets, that a job can read its data set."""
    is_ready = (col(Dataset.status) == DatasetStatus.READY) & (col(Job.task) != UNDECIDED)
    is_sent = (col(Dataset.status) == DatasetStatus.INVALID) & _is_script_with_upload()
    return col(Job.dataset_id).is_(None) | is_ready | is_sent


def _is_script_with_upload() -> Any:
    return (col(Job.task) == SCRIPT) & (col(Dataset.kind) == "archive")
