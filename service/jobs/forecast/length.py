"""The default length of a job, on the data that it has.

A spec without `epochs` and `steps` gets more epochs on a small data set. The spec in the database
has the number, so that dry runs, the job's page and the report show it.
"""

from collections.abc import Mapping
from typing import Any

from redkiln.spec.job_spec import JobSpec, TrainingSpec
from redkiln.spec.quality import lengthen
from redkiln.views.dataset import DatasetStatus
from service.datasets.models import Dataset
from service.jobs.fitting import count_train


def fit_length(spec: JobSpec, written: Mapping[str, Any], dataset: Dataset | None) -> JobSpec:
    """Return the spec with the default length for its data set, once that is counted.

    Args:
        spec: The parsed spec.
        written: The spec as its owner wrote it.
        dataset: The data set, if the spec names one that exists.
    """
    if dataset is None or not _is_open(spec, written):
        return spec
    assert isinstance(spec, TrainingSpec)
    training = spec.training
    num_train = count_train(dataset, validation_fraction=training.validation_fraction)
    if training.epochs is None or not num_train:
        return spec
    epochs = lengthen(training.epochs, num_train=num_train)
    training = training.model_copy(update={"epochs": epochs})
    return spec.model_copy(update={"training": training})


def dump_spec(spec: JobSpec, written: Mapping[str, Any], dataset: Dataset | None) -> dict[str, Any]:
    """Return a spec for the database, without a length that its data set will decide later."""
    dumped = spec.model_dump(mode="json")
    is_waiting = dataset is not None and dataset.status == DatasetStatus.VALIDATING
    if is_waiting and _is_open(spec, written):
        del dumped["training"]["epochs"]
    return dumped


def _is_open(spec: JobSpec, written: Mapping[str, Any]) -> bool:
    """Return whether the size of the training split may decide the length."""
    if not isinstance(spec, TrainingSpec) or not spec.training.grows_when_small:
        return False
    given = written.get("training") or {}
    return given.get("epochs") is None and given.get("steps") is None
