"""The query parameters that select jobs, the same for a list and for a change of many jobs."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends, Query, Request

from redkiln.spec.problems import SpecProblem
from redkiln.status import JobStatus
from service.errors import Unprocessable
from service.jobs.lists.listing import Filters
from service.jobs.lists.search import MAX_WORDS
from service.projects.seen import Seen

METADATA_PREFIX = "metadata."
MAX_METADATA = 32
"""As many as a job may have; SQLite refuses a statement with a thousand."""


def read_filters(
    request: Request,
    project: Seen,
    status: Annotated[list[JobStatus] | None, Query(description="Any of these.")] = None,
    task: Annotated[str | None, Query(max_length=100)] = None,
    dataset: Annotated[str | None, Query(max_length=100, description="Id of a data set.")] = None,
    q: Annotated[
        str,
        Query(
            max_length=200,
            description="Words that must all be in the job's name, id, data set, model or task, "
            "or be its status.",
        ),
    ] = "",
) -> Filters:
    """Return which jobs a request selects.

    Raises:
        Unprocessable: There are too many words or metadata, or a `metadata.<key>` is misspelt or
            given twice.
    """
    words = q.split()
    if len(words) > MAX_WORDS:
        message = f"q has {len(words)} words; use at most {MAX_WORDS}"
        raise Unprocessable(message, errors=[SpecProblem("", "too_many_words", message)])
    return Filters(
        words=words,
        statuses=status or [],
        task=task,
        dataset_id=dataset,
        project=project,
        metadata=dict(_metadata_entries(request)),
    )


Selected = Annotated[Filters, Depends(read_filters)]
JobId = Annotated[str, Query(pattern=r"^job_[0-9a-z]{22}$")]


def _metadata_entries(request: Request) -> Iterator[tuple[str, str]]:
    seen = set()
    for name, value in request.query_params.multi_items():
        if not name.startswith(METADATA_PREFIX):
            continue
        key = name.removeprefix(METADATA_PREFIX)
        if not key or len(key) > 64 or not all(c.isalnum() or c in "_.-" for c in key):
            message = (
                f"{key!r} is not a metadata key; use up to 64 letters, digits, '_', '.' or '-'"
            )
            raise Unprocessable(message, errors=[SpecProblem("", "bad_metadata_key", message)])
        if key in seen:
            message = f"metadata.{key} is given twice, but a job has one value; name it once"
            raise Unprocessable(message, errors=[SpecProblem("", "repeated_metadata_key", message)])
        seen.add(key)
        if len(seen) > MAX_METADATA:
            message = f"a job has at most {MAX_METADATA} metadata; select by fewer"
            raise Unprocessable(message, errors=[SpecProblem("", "too_many_metadata", message)])
        yield key, value
