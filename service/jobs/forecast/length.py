"""The default length of a job and its default changes of images, on the data that it has.

A spec without `epochs` and `steps` gets more epochs on a small data set, and one of images stronger
changes in the fields of `augment` that it does not set, if each image has one class. The spec in
the database has them, so that dry runs, the job's page and the report show them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from redkiln.spec.job_spec import JobSpec, TrainingSpec
from redkiln.spec.quality import ENOUGH_SAMPLES, lengthen
from redkiln.spec.strict import StrictModel
from redkiln.views.dataset import DatasetStatus
from service.datasets.models import Dataset
from service.jobs.fitting import count_train


def fit_length(spec: JobSpec, written: Mapping[str, Any], dataset: Dataset | None) -> JobSpec:
    """Return the spec with the defaults for the size of its data set, once that is counted.

    Args:
        spec: The parsed spec.
        written: The spec as its owner wrote it.
        dataset: The data set, if the spec names one that exists.
    """
    open_fields = _list_open(spec, written)
    if dataset is None or not open_fields:
        return spec
    assert isinstance(spec, TrainingSpec)
    training = spec.training
    num_train = count_train(dataset, validation_fraction=training.validation_fraction)
    if not num_train:
        return spec
    fitted: dict[str, Any] = {}
    # Of images with several labels, stronger changes hid small and coloured objects.
    has_labels = bool((dataset.report or {}).get("label_counts"))
    if num_train < ENOUGH_SAMPLES and not has_labels:
        own = written.get("training") or {}
        fitted |= {
            name: _with_own(value, getattr(training, name), set_fields=own.get(name) or ())
            for name, value in training.when_small.items()
            if name in open_fields
        }
    if training.epochs is not None and "epochs" in open_fields:
        fitted["epochs"] = lengthen(training.epochs, num_train=num_train)
    return spec.model_copy(update={"training": training.model_copy(update=fitted)})


def dump_spec(spec: JobSpec, written: Mapping[str, Any], dataset: Dataset | None) -> dict[str, Any]:
    """Return a spec for the database, without defaults that its data set will decide later."""
    dumped = spec.model_dump(mode="json")
    if dataset is not None and dataset.status == DatasetStatus.VALIDATING:
        own = written.get("training") or {}
        for name in _list_open(spec, written):
            del dumped["training"][name]
            if own.get(name):
                dumped["training"][name] = own[name]
    return dumped


def _with_own(small: StrictModel, parsed: StrictModel, *, set_fields: Iterable[str]) -> StrictModel:
    """Return the defaults of a small split, with the fields that the spec sets."""
    return small.model_copy(update={field: getattr(parsed, field) for field in set_fields})


def _list_open(spec: JobSpec, written: Mapping[str, Any]) -> list[str]:
    """Return the fields of `training` that the size of the training split may decide, or a part.

    A part written as `{}` keeps its usual defaults, as do those that the model recommends.
    """
    if not isinstance(spec, TrainingSpec):
        return []
    training, given = spec.training, written.get("training") or {}
    found = [
        name
        for name, small in training.when_small.items()
        if given.get(name) != {}
        and getattr(training, name) == type(small).model_validate(given.get(name) or {})
    ]
    is_short = given.get("epochs") is None and given.get("steps") is None
    return [*found, "epochs"] if training.grows_when_small and is_short else found
