"""Specs that name no task while their data set is still being validated.

The data set decides the task, so such a spec keeps the fields as the user wrote them and gets the
task `auto`. Once the data set is ready, `service.jobs.waiting` parses it like a new spec.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, PrivateAttr, StringConstraints

from redkiln.spec.job_spec import JobSpec, TrainingSpec
from redkiln.spec.problems import SpecError
from redkiln.tasks import DEFAULT_TASK, TASKS, parse_spec
from redkiln.views.dataset import DatasetStatus
from service.datasets.models import Dataset
from service.jobs.forecast.length import fit_length

UNDECIDED = "auto"
"""The task of a job until its data set is validated."""


class UndecidedSpec(JobSpec):
    """The fields that all tasks share; those of the task are kept as they were written."""

    model_config = ConfigDict(extra="allow")

    task: Literal["auto"] = "auto"
    dataset: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    _as_if_decided: TrainingSpec = PrivateAttr()

    @property
    def dataset_reference(self) -> str | None:
        """The data set as the owner named it."""
        return self.dataset


def as_if_decided(spec: JobSpec) -> JobSpec:
    """Return a spec whose fields are parsed: for one of its tasks if it has none yet.

    What it asks of its owner, such as files and scopes, is the same for each of them.
    """
    return spec._as_if_decided if isinstance(spec, UndecidedSpec) else spec


def parse_for(body: Any, dataset: Dataset | None) -> JobSpec:
    """Parse a spec; without `task` it gets the task of its data set, once that is known.

    Raises:
        SpecError: The spec is invalid for its task, or for every task that it may get.
    """
    if _is_undecided(body, dataset):
        return _parse_undecided(body)
    spec = parse_spec(body, default_task=_task_of(dataset) or DEFAULT_TASK)
    return fit_length(spec, body, dataset)


def parse_kept(spec: Mapping[str, Any], dataset: Dataset) -> JobSpec:
    """Parse the spec of a job whose data set is ready.

    Raises:
        SpecError: The spec named no task, and is invalid for the task of the data set.
    """
    body = {key: value for key, value in spec.items() if (key, value) != ("task", UNDECIDED)}
    parsed = parse_spec(body, default_task=_task_of(dataset) or DEFAULT_TASK)
    return fit_length(parsed, body, dataset)


def _task_of(dataset: Dataset | None) -> str | None:
    """Return the task of a data set: as it was found, else as its owner set it."""
    if dataset is None:
        return None
    task: str | None = dataset.task or dataset.options.get("task")
    return task


def _is_undecided(body: Any, dataset: Dataset | None) -> bool:
    if not isinstance(body, dict) or "task" in body:
        return False
    if dataset is None:  # a name that is not known is reported, and nothing that follows from it
        return isinstance(body.get("dataset"), str)
    return dataset.status == DatasetStatus.VALIDATING and _task_of(dataset) is None


def _parse_undecided(body: dict[str, Any]) -> UndecidedSpec:
    """Keep a spec that is valid for at least one task that trains on data."""
    errors = []
    for name, spec_class in TASKS.items():
        if not issubclass(spec_class, TrainingSpec) or spec_class.reads_any_dataset:
            continue
        try:
            parsed = parse_spec({**body, "task": name})
        except SpecError as error:
            errors.append(error)
        else:
            assert isinstance(parsed, TrainingSpec)
            undecided = UndecidedSpec.model_validate(body)
            undecided._as_if_decided = parsed
            return undecided
    raise min(errors, key=lambda error: len(error.problems))
