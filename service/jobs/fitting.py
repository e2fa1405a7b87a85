"""Checks that a data set fits a spec before any worker is involved."""

from typing import Any

from redkiln.datasets import BUILTINS, count_taken
from redkiln.spec.class_weights import ClassifierTraining, find_weight_problems
from redkiln.spec.job_spec import JobSpec, TrainingSpec
from redkiln.spec.problems import SpecProblem
from redkiln.tables import TABLE_TASKS, explain_no_log
from redkiln.tasks.tabular_regression import TabularRegressionTraining
from redkiln.views.dataset import DatasetStatus
from service.datasets.models import Dataset


def find_misfits(spec: JobSpec, dataset: Dataset | None) -> list[SpecProblem]:
    """Return the parts of a spec that its data set does not fit; none until it is validated."""
    if dataset is None or dataset.status != DatasetStatus.READY:
        return []
    if not isinstance(spec, TrainingSpec) or spec.reads_any_dataset or dataset.task is None:
        return []
    if dataset.task != spec.task:
        return [SpecProblem("/task", "task_mismatch", _describe_task_mismatch(spec.task, dataset))]
    return [
        *_check_sizes(spec, dataset),
        *_check_classes(spec, dataset),
        *_check_target(spec, dataset),
    ]


def count_train(dataset: Dataset, *, validation_fraction: float) -> int:
    """Return the number of training samples that are left without the validation split."""
    counts = dataset.report.get("counts", {})
    sizes = counts.get("train", {}).values()
    if "validation" in counts:
        return sum(sizes)
    return sum(size - count_taken(size, fraction=validation_fraction) for size in sizes)


def _describe_task_mismatch(task: str, dataset: Dataset) -> str:
    message = f"data set {dataset.name!r} is for {dataset.task}, not {task}"
    if dataset.task in TABLE_TASKS and task in TABLE_TASKS and dataset.kind != "builtin":
        return f"{message}; register it again with task={task}, or remove `task` from the spec"
    fitting = [f"builtin:{name}" for name, builtin in BUILTINS.items() if builtin.task == task]
    hint = f", or use a data set for {task} ({', '.join(fitting)})" if fitting else ""
    return f"{message}; remove `task` from the spec{hint}"


def _check_sizes(spec: TrainingSpec, dataset: Dataset) -> list[SpecProblem]:
    training = spec.training
    if not dataset.report.get("counts", {}).get("train"):
        return []
    num_train = count_train(dataset, validation_fraction=training.validation_fraction)
    own = dataset.report["counts"].get("validation", {}).values()
    num_validation = sum(own) or count_train(dataset, validation_fraction=0) - num_train
    problems = []
    if training.batch_size != "auto" and training.batch_size > num_train:
        message = (
            f"a batch size of {training.batch_size} is larger than the {num_train} training "
            f"samples of data set {dataset.name!r}; use at most {num_train}, or auto"
        )
        problems.append(SpecProblem("/training/batch_size", "batch_too_large", message))
    elif training.batch_size != "auto" and training.accumulation > training.batch_size:
        message = (
            f"a batch size of {training.batch_size} cannot be split into {training.accumulation} "
            "micro steps; lower accumulation or raise batch_size"
        )
        problems.append(SpecProblem("/training/accumulation", "too_many_micro_steps", message))
    if training.early_stopping is not None and num_validation < 1:
        message = (
            f"data set {dataset.name!r} has only one training sample per class, so none is left "
            "for validation; remove early_stopping"
        )
        problems.append(SpecProblem("/training/early_stopping", "no_validation_split", message))
    return problems


def _check_classes(spec: TrainingSpec, dataset: Dataset) -> list[SpecProblem]:
    if not isinstance(spec.training, ClassifierTraining):
        return []
    found = find_weight_problems(spec.training.class_weights, dataset.report.get("classes", []))
    return [SpecProblem(pointer, "invalid_class_weights", message) for pointer, message in found]


def _check_target(spec: TrainingSpec, dataset: Dataset) -> list[SpecProblem]:
    """Refuse the logarithm of a target that has none."""
    training = spec.training
    if not isinstance(training, TabularRegressionTraining) or training.target_transform != "log":
        return []
    columns = dataset.report.get("columns", [])
    target: dict[str, Any] = next((c for c in columns if c["type"] == "target"), {})
    smallest = target.get("minimum")
    if smallest is None or smallest > 0:
        return []
    message = explain_no_log(target["name"], smallest, place=target.get("minimum_at"))
    return [SpecProblem("/training/target_transform", "no_logarithm", message)]
