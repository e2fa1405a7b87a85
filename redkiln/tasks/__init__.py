"""The tasks that a spec can name, and the one function that reads specs.

`parse_spec` turns what a user wrote into a typed spec, or raises a `SpecError` whose problems each
have a JSON pointer and, for a misspelt name, the nearest known one.
"""

import importlib
import pkgutil
from typing import Any

from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema

from redkiln.nearest import suggest
from redkiln.spec.engines import find_engine_problem
from redkiln.spec.exports import Export
from redkiln.spec.job_spec import JobSpec, TrainingSpec
from redkiln.spec.problems import SpecError, SpecProblem, find_problems


def _find_tasks() -> dict[str, type[JobSpec]]:
    """Return the spec class of every module here, by the task's name; tasks with a model first."""
    names = (info.name for info in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in sorted(names)]
    modules.sort(key=lambda module: not issubclass(module.SPEC, TrainingSpec))
    return {module.NAME: module.SPEC for module in modules}


TASKS: dict[str, type[JobSpec]] = _find_tasks()
DEFAULT_TASK = "image-classification"
"""The task of a spec if neither the spec nor its data set names one."""


def get_task(name: str) -> type[JobSpec]:
    """Return the spec class of a task.

    Raises:
        SpecError: There is no such task; the message suggests the nearest known name.
    """
    try:
        return TASKS[name]
    except KeyError:
        message = f"unknown task {name!r}{suggest(name, TASKS)}"
        raise SpecError([SpecProblem("/task", "unknown_task", message)]) from None


def exports_model(task: object) -> bool:
    """Return whether jobs of this task end with a model; True for tasks unknown to this version."""
    spec_class = TASKS.get(task) if isinstance(task, str) else None
    return spec_class is None or spec_class.exports


def trains_model(task: object) -> bool:
    """Return whether jobs of this task train; True for tasks unknown to this version."""
    spec_class = TASKS.get(task) if isinstance(task, str) else None
    return spec_class is None or issubclass(spec_class, TrainingSpec)


def needs_dataset(name: str) -> bool:
    """Return whether a spec of this task must name a data set."""
    field = TASKS[name].model_fields.get("dataset")
    return field is not None and field.is_required()


def task_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a task's spec, with every default.

    Raises:
        SpecError: There is no such task.
    """
    return get_task(name).model_json_schema(schema_generator=_SchemaWithEveryDefault)


class _SchemaWithEveryDefault(GenerateJsonSchema):
    """Adds the defaults made by factories, which pydantic omits."""

    def get_default_value(self, schema: Any) -> Any:
        """Return the default of a field; called by pydantic's generator."""
        factory = schema.get("default_factory")
        if factory is not None and not schema.get("default_factory_takes_data"):
            return factory()
        return super().get_default_value(schema)


def parse_spec(value: Any, *, default_task: str | None = None) -> JobSpec:
    """Parse a spec and fill in its defaults.

    Args:
        value: Decoded JSON or YAML.
        default_task: Task to assume if the spec names none, such as that of the data set.

    Raises:
        SpecError: The spec is invalid; the error has one problem for each mistake.
    """
    if not isinstance(value, dict):
        kind = type(value).__name__
        message = f"a spec must be an object, not {kind}"
        raise SpecError([SpecProblem("", "not_an_object", message)])
    task = value.get("task", default_task)
    if not isinstance(task, str):
        message = f"the spec names no task; set it to one of {', '.join(TASKS)}"
        raise SpecError([SpecProblem("/task", "missing_task", message)])
    spec_class = get_task(task)
    try:
        spec = spec_class.model_validate({**value, "task": task})
    except ValidationError as error:
        errors = error.errors(include_url=False)
        raise SpecError(find_problems(errors, spec_class, others=TASKS)) from None
    if problems := spec.find_conflicts():
        raise SpecError(problems)
    found = (_find_too_many_gpus(spec), _find_untrained_variant(spec), find_engine_problem(spec))
    for problem in found:
        if problem:
            raise SpecError([problem])
    return spec


def _find_untrained_variant(spec: JobSpec) -> SpecProblem | None:
    export = getattr(spec, "export", None)
    if not isinstance(export, Export):
        return None
    names = [variant.name for variant in export.variants]
    if "int8-qat" not in names:
        return None
    pointer = f"/export/variants/{names.index('int8-qat')}"
    if not spec.can_fine_tune:
        message = f"{spec.task} cannot write int8-qat, which needs training on images"
        return SpecProblem(pointer, "not_trainable", message)
    if spec.resources.gpus > 1:
        message = (
            f"int8-qat is fine-tuned on one GPU, not on {spec.resources.gpus}; set resources.gpus "
            "to 1, or use int8-static"
        )
        return SpecProblem(pointer, "needs_one_gpu", message)
    return None


def _find_too_many_gpus(spec: JobSpec) -> SpecProblem | None:
    gpus = spec.resources.gpus
    if gpus > 1 and spec.resources.device == "cpu":
        message = f"a job with device cpu cannot use {gpus} GPUs; remove gpus"
    elif gpus > spec.max_gpus:
        most = f"{spec.max_gpus} GPU{'s' if spec.max_gpus > 1 else ''}"
        message = f"{spec.task} uses at most {most}, not {gpus}"
    else:
        return _find_too_small_batch(spec)
    return SpecProblem("/resources/gpus", "too_many_gpus", message)


def _find_too_small_batch(spec: JobSpec) -> SpecProblem | None:
    batch_size = spec.training.batch_size if isinstance(spec, TrainingSpec) else "auto"
    if batch_size == "auto" or batch_size >= spec.resources.gpus:
        return None
    message = (
        f"a batch of {batch_size} is too small to be shared by {spec.resources.gpus} GPUs; raise "
        "batch_size or use fewer GPUs"
    )
    return SpecProblem("/training/batch_size", "too_small_batch", message)
