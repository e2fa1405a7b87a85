"""The tasks that a spec can name, and the one function that reads specs.

`parse_spec` turns what a user wrote into a typed spec, or raises a `SpecError` whose problems each
have a JSON pointer and, for a misspelt name, the nearest known one.
"""

import types
import typing
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from redkiln.nearest import find_nearest, suggest
from redkiln.spec.job_spec import JobSpec, TrainingSpec
from redkiln.tasks import (
    benchmark,
    image_classification,
    script,
    tabular_classification,
    tabular_regression,
    text_classification,
)

TASKS: dict[str, type[JobSpec]] = {
    image_classification.NAME: image_classification.ImageClassificationSpec,
    text_classification.NAME: text_classification.TextClassificationSpec,
    tabular_classification.NAME: tabular_classification.TabularClassificationSpec,
    tabular_regression.NAME: tabular_regression.TabularRegressionSpec,
    benchmark.NAME: benchmark.BenchmarkSpec,
    script.NAME: script.ScriptSpec,
}
DEFAULT_TASK = image_classification.NAME
"""The task of a spec if neither the spec nor its data set names one."""


@dataclass(frozen=True)
class SpecProblem:
    """One mistake in a spec, and where it is.

    Attributes:
        pointer: JSON pointer (RFC 6901) to the place; `""` is the whole spec.
        code: Machine-readable kind (`unknown_field`, `unknown_task`, else pydantic's type).
        message: What is wrong, and what is allowed.
    """

    pointer: str
    code: str
    message: str


class SpecError(ValueError):
    """A spec that cannot be run; `problems` says why, place by place."""

    def __init__(self, problems: list[SpecProblem]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{p.pointer or '/'}: {p.message}" for p in problems))


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
        raise SpecError(find_problems(error.errors(include_url=False), spec_class)) from None
    if problem := _find_too_many_gpus(spec):
        raise SpecError([problem])
    return spec


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


def find_problems(errors: typing.Iterable[Any], model: type[BaseModel]) -> list[SpecProblem]:
    """Convert pydantic's errors to problems in our words, one for each place.

    Args:
        errors: Errors as returned by `ValidationError.errors()`.
        model: Model that the document was validated against.
    """
    problems: dict[str, SpecProblem] = {}
    for item in errors:
        path, owner = _walk(model, item["loc"])
        pointer = "".join(f"/{_escape(part)}" for part in path)
        if item["type"] == "extra_forbidden":
            known = owner.model_fields if owner else {}
            message = f"unknown field {path[-1]!r}{suggest(str(path[-1]), known)}"
            problem = SpecProblem(pointer, "unknown_field", message)
        elif item["type"] == "union_tag_invalid":
            context = item["ctx"]
            message = f"unknown name {context['tag']!r}{suggest(context['tag'], _expected(item))}"
            problem = SpecProblem(f"{pointer}/name", "unknown_name", message)
        else:
            message = item["msg"].removeprefix("Value error, ")
            if item["type"] == "literal_error":
                # The message already lists the allowed values.
                message += find_nearest(str(item["input"]), _expected(item))
            problem = SpecProblem(pointer, item["type"], message)
        if pointer in problems:
            known_message = problems[pointer].message
            if problem.message not in known_message:
                joined = f"{known_message}, or: {problem.message}"
                problems[pointer] = SpecProblem(pointer, problems[pointer].code, joined)
        else:
            problems[pointer] = problem
    return list(problems.values())


def _walk(
    spec_class: type[BaseModel], loc: tuple[int | str, ...]
) -> tuple[list[int | str], type[BaseModel] | None]:
    """Return the JSON path of a pydantic location, without union branches, and the last model.

    Between two keys of the document, a location also names the branch of a union (`adamw`, `int`).
    Only the fields of the model reached so far, and keys below a list or mapping, are kept.
    """
    path: list[int | str] = []
    owner: type[BaseModel] | None = spec_class
    container = False
    for index, part in enumerate(loc):
        last = index == len(loc) - 1
        if container:
            path.append(part)
            container = False
        elif owner is not None and part in owner.model_fields:
            path.append(part)
            if not last:
                annotation = owner.model_fields[str(part)].annotation
                owner, container = _inner(annotation, loc[index + 1])
        elif owner is not None and last:
            path.append(part)  # an unknown field
    return path, owner


def _inner(annotation: Any, following: int | str) -> tuple[type[BaseModel] | None, bool]:
    """Return the model in an annotation that `following` leads into, and whether in a container."""
    origin = typing.get_origin(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    if origin in (list, dict, tuple):
        return None, True
    if origin in (typing.Union, types.UnionType, typing.Annotated):
        for option in typing.get_args(annotation):
            inner, _ = _inner(option, following)
            name = inner.model_fields.get("name") if inner is not None else None
            if inner is not None and (name is None or name.default in (following, None)):
                return inner, False
        # pydantic names no branch for an optional list or mapping.
        said = [option for option in typing.get_args(annotation) if option is not types.NoneType]
        return None, len(said) == 1 and typing.get_origin(said[0]) in (list, dict)
    return None, False


def _expected(item: Any) -> list[str]:
    context = item.get("ctx", {})
    expected = context.get("expected_tags") or context.get("expected", "")
    names = expected.replace(" or ", ",").replace("'", "").split(",")
    return [name.strip() for name in names if name.strip()]


def _escape(part: int | str) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")
