"""Requests as values: what to send and how to read the answer, for both clients."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import httpx
from pydantic import BaseModel, Field

from redkiln.spec.job_spec import JobSpec
from redkiln.views.job import Estimates, EventView, JobView
from redkiln.views.metrics import Series
from redkiln.views.page import Page

Answer = TypeVar("Answer")
View = TypeVar("View", bound=BaseModel)


class DryRun(Estimates):
    """A spec with its defaults filled in, `auto` unchanged, and an estimate of what it takes."""

    dataset_id: str | None = None
    spec: dict[str, Any]
    warnings: list[dict[str, Any]] = Field(default_factory=list)


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """One request.

    Attributes:
        read: Reads the successful answer.
        params: Query parameters; None values are left out.
        json: Body to encode as JSON.
        headers: Additional headers.
        repeatable: Whether it may be retried; None: all but POST and PATCH may.
    """

    method: str
    path: str
    read: Callable[[httpx.Response], Answer]
    params: Mapping[str, Any] = field(default_factory=dict)
    json: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool | None = None


def get(path: str, view: type[View], params: Mapping[str, Any] | None = None) -> Call[View]:
    """Return the request for an object."""
    return Call("GET", path, _reader(view), params or {})


def get_page(
    path: str, view: type[View], params: Mapping[str, Any] | None = None, *, after: str | None
) -> Call[Page[View]]:
    """Return the request for the page of a list that follows an id."""
    page = Page[view]  # type: ignore[valid-type]
    return Call("GET", path, _reader(page), {**(params or {}), "after": after})


def is_job_id(named: str) -> bool:
    """Return whether a job is named by its id rather than its name."""
    return named.startswith("job_")


def search(words: str) -> dict[str, str]:
    """Return the query parameters that list the jobs with these words."""
    return {"q": words}


def get_events(job_id: str, *, after_seq: int) -> Call[Page[EventView]]:
    """Return the request for a page of a job's events."""
    params = {"after_seq": after_seq, "limit": 1000}
    return get(f"/v1/jobs/{job_id}/events", Page[EventView], params)


def submit(spec: Mapping[str, Any] | JobSpec, *, idempotency_key: str | None) -> Call[JobView]:
    """Return the request that queues a job."""
    headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
    return Call("POST", "/v1/jobs", _reader(JobView), {}, _plain(spec), headers, repeatable=True)


def dry_run(spec: Mapping[str, Any] | JobSpec) -> Call[DryRun]:
    """Return the request that checks a spec."""
    params = {"dry_run": "true"}
    return Call("POST", "/v1/jobs", _reader(DryRun), params, _plain(spec), repeatable=True)


def steer(job_id: str, verb: str) -> Call[JobView]:
    """Return the request that cancels, pauses, resumes or finishes a job."""
    return Call("POST", f"/v1/jobs/{job_id}/{verb}", _reader(JobView), repeatable=True)


def get_metrics(
    job_id: str,
    *,
    names: Sequence[str] | None,
    after_step: int | None,
    from_step: int | None,
    to_step: int | None,
    max_points: int | None,
) -> Call[list[Series]]:
    """Return the request for the metrics of a job over its steps."""
    params = {
        "names": ",".join(names) if names else None,
        "after_step": after_step,
        "from_step": from_step,
        "to_step": to_step,
        "max_points": max_points,
    }

    def read(response: httpx.Response) -> list[Series]:
        return [Series.model_validate(item) for item in response.json()["series"]]

    return Call("GET", f"/v1/jobs/{job_id}/metrics", read, params)


def _reader(view: type[View]) -> Callable[[httpx.Response], View]:
    return lambda response: view.model_validate_json(response.content)


def _plain(spec: Mapping[str, Any] | JobSpec) -> dict[str, Any]:
    if isinstance(spec, str):
        raise TypeError(
            f"{spec!r} is not a spec. Give a mapping, such as {{'dataset': 'builtin:digits'}}, or "
            "read a file with yaml.safe_load"
        )
    if isinstance(spec, JobSpec):
        return spec.model_dump(mode="json", exclude_unset=True) | {"task": spec.task}
    return dict(spec)
