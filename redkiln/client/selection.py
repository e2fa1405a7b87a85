"""Which jobs a request is about, as the query parameters of the service."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict


class Selection(TypedDict, total=False):
    """Filters of jobs; a job must pass all of them.

    Attributes:
        status: Only jobs in this status, or in any of these.
        task: Only jobs of this task.
        dataset: Only jobs on the data set with this id.
        project: Only jobs of this project; others than one's own need an admin key.
        search: Words that must all be in the job's name, id, data set, model or task, or be its
            status.
        metadata: Only jobs whose metadata has all of these entries.
    """

    status: str | Sequence[str] | None
    task: str | None
    dataset: str | None
    project: str | None
    search: str | None
    metadata: Mapping[str, str] | None


def to_params(selection: Selection) -> dict[str, Any]:
    """Return the query parameters of a selection."""
    entries = selection.get("metadata") or {}
    return {
        "status": selection.get("status"),
        "task": selection.get("task"),
        "dataset": selection.get("dataset"),
        "project": selection.get("project"),
        "q": selection.get("search"),
        **{f"metadata.{name}": value for name, value in entries.items()},
    }
