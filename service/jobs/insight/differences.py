"""How the spec of a job differs from the defaults of its task."""

from collections.abc import Iterator, Mapping
from typing import Any

from redkiln.spec.problems import SpecError
from redkiln.tasks import TASKS, parse_spec
from redkiln.views.evaluation import SpecDifference, SpecDifferences
from service.jobs.models import Job

_NOT_SETTINGS = frozenset({"name", "task", "dataset", "metadata"})
"""Fields that every job sets, and that change nothing in training."""


def find_differences(job: Job) -> SpecDifferences:
    """Return the fields of a job's spec that are not at their defaults.

    For a job that a worker has resolved, the values are those that it used.
    """
    defaults = default_spec(job.spec)
    used = job.resolved_spec or job.spec
    differences = [
        SpecDifference(
            pointer=pointer,
            default=default,
            value=value,
            by="user" if _at(job.spec, pointer) != default else "worker",
        )
        for pointer, default, value in compare(defaults, used)
        if pointer.split("/")[1] not in _NOT_SETTINGS
    ]
    return SpecDifferences(task=job.task, differences=differences)


def default_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of the same task that sets nothing but what it must; empty if unknown."""
    task = TASKS.get(spec.get("task", ""))
    if task is None:
        return {}
    required = {
        field.alias or name: spec.get(name)
        for name, field in task.model_fields.items()
        if field.is_required()
    }
    try:
        parsed = parse_spec({**required, "task": spec["task"]})
    except SpecError:  # a kept spec of an older release
        return {}
    return parsed.model_dump(mode="json")


def compare(
    default: Mapping[str, Any], used: Mapping[str, Any], *, below: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the JSON pointer, default and value of each field that differs."""
    for name in dict.fromkeys((*used, *default)):
        pointer = f"{below}/{_escape(name)}"
        one, other = default.get(name), used.get(name)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from compare(one, other, below=pointer)
        elif one != other:
            yield pointer, one, other


def _at(spec: Mapping[str, Any], pointer: str) -> Any:
    value: Any = spec
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
