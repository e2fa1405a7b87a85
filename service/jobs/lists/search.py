"""What a search for jobs looks at: name, id, data set, model and task, as one text."""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from service.jobs.models import JOB, Job

MAX_WORDS = 8
_MAX_PART = 200


def describe(job: Job) -> None:
    """Set the columns of a job that lists are searched and sorted by."""
    job.model = model_name(job.resolved_spec or job.spec)
    job.search_text = search_text(
        name=job.name,
        job_id=job.id,
        dataset_name=job.dataset_name,
        model=job.model,
        task=job.task,
    )


def search_text(
    *, name: str, job_id: str, dataset_name: str | None, model: str | None, task: str
) -> str:
    """Return the text of a job that is searched; it starts with the name, for sorting by name."""
    parts = (name, job_id, dataset_name or "", model or "", task)
    return "\n".join(part[:_MAX_PART].casefold() for part in parts)


def model_name(spec: Mapping[str, Any]) -> str | None:
    """Return what a spec calls its model: the architecture, else the pretrained weights."""
    model = spec.get("model")
    if not isinstance(model, Mapping):
        return model if isinstance(model, str) else None
    name, pretrained = model.get("name"), model.get("pretrained")
    chosen = pretrained if name in (None, "auto") and pretrained else name
    return None if chosen is None else str(chosen)


def matches(words: Sequence[str]) -> list[sa.ColumnElement[bool]]:
    """Return SQL conditions: each word is in the job's text, or is its status."""
    return [
        sa.or_(
            JOB.c.search_text.contains(word, autoescape=True),
            JOB.c.status == word,
        )
        for word in (word.casefold() for word in words[:MAX_WORDS])
    ]
