"""Jobs: submitting and watching them, and reading their records."""

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel

from redkiln.client import calls
from redkiln.client.calls import DryRun
from redkiln.client.requests import Requests
from redkiln.client.selection import Selection, to_params
from redkiln.client.watching import (
    PATIENCE_SECONDS,
    Outage,
    Update,
    ask_patiently,
    follow_log,
    watch_events,
)
from redkiln.errors import RedkilnError, WaitTimeout
from redkiln.notebook.card import render_card
from redkiln.notebook.frames import to_frame
from redkiln.notebook.live import show_live
from redkiln.spec.job_spec import JobSpec
from redkiln.views.dataset import DatasetView
from redkiln.views.job import CheckpointView, EventView, JobSummary, JobView
from redkiln.views.metrics import Series, TelemetrySeries
from redkiln.views.page import Page

CURVE_POINTS = 200
"""Points of each curve that `live` shows."""


class TaskInfo(BaseModel):
    """A task that a spec can name."""

    name: str
    description: str = ""


@dataclass(frozen=True)
class Preview:
    """Sample predictions of a job at a step.

    Attributes:
        media_type: `image/png`, or `text/markdown` for a table.
        etag: Identifies this version of the preview.
    """

    content: bytes
    media_type: str
    step: int
    etag: str


class Jobs(Requests):
    """Client methods for jobs."""

    def tasks(self) -> list[TaskInfo]:
        """Return the tasks that a spec can name."""
        return list(self._pages("/v1/tasks", TaskInfo))

    def task_schema(self, task: str) -> dict[str, Any]:
        """Return the JSON Schema of a task's spec, with every default.

        Raises:
            NotFound: There is no such task.
        """
        schema: dict[str, Any] = self._connection.request("GET", f"/v1/tasks/{task}/schema").json()
        return schema

    def submit(
        self, spec: Mapping[str, Any] | JobSpec, *, idempotency_key: str | None = None
    ) -> JobView:
        """Queue a job; issue a `DatasetWarning` if its data set has warnings.

        Args:
            spec: Spec as a mapping, as in `examples/`; only `dataset` is required.
            idempotency_key: A second submission with the same key returns the first one's job. By
                default a new key, so that a retried request cannot create two jobs.

        Raises:
            Rejected: The spec is wrong; `errors` says where.
        """
        job = self._connection.send(calls.submit(spec, idempotency_key=idempotency_key))
        if job.dataset_id and self.warns_of_data:
            with suppress(RedkilnError):  # the job is queued, whatever its data set answers
                self._warn_of_data(self._get(f"/v1/datasets/{job.dataset_id}", DatasetView))
        return job

    def export(
        self,
        job_id: str,
        *,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> JobView:
        """Export the model of a job that has succeeded again, as a separate job.

        Args:
            job_id: Job whose model is exported; nothing is trained.
            idempotency_key: As in `submit`.
            **options: Fields of `export` that differ from those of the job, such as `variants`.

        Raises:
            NotFound: There is no such job.
            Rejected: The job has no model any more, or an option is wrong.
        """
        response = self._connection.request(
            "POST",
            f"/v1/jobs/{self._job_id(job_id)}/export",
            json=options,
            headers={"Idempotency-Key": idempotency_key or str(uuid.uuid4())},
            repeatable=True,
        )
        return JobView.model_validate_json(response.content)

    def dry_run(self, spec: Mapping[str, Any] | JobSpec) -> DryRun:
        """Check a spec as `submit` would and fill in its defaults, without creating a job.

        Raises:
            Rejected: The spec is wrong; `errors` says where.
        """
        return self._connection.send(calls.dry_run(spec))

    def jobs(
        self,
        *,
        status: str | None = None,
        task: str | None = None,
        project: str | None = None,
        metadata: Mapping[str, str] | None = None,
        search: str | None = None,
        sort: str | None = None,
        limit: int = 100,
    ) -> Iterator[JobSummary]:
        """Yield jobs, newest first; further pages are fetched when needed.

        Args:
            search: Words that must all be in the job's name, id, data set, model or task, or be
                its status.
            sort: `created`, `ended`, `name`, `priority`, `queue`, or a metric such as
                `test/accuracy`; `-` in front sorts descending. Jobs without the value are left
                out.
            status: Yield only jobs in this status.
            task: Yield only jobs of this task.
            project: Yield only jobs of this project; others than one's own need an admin key.
            metadata: Yield only jobs whose metadata has all of these entries.
            limit: Size of a page.
        """
        chosen = Selection(
            status=status, task=task, project=project, search=search, metadata=metadata
        )
        params = {**to_params(chosen), "sort": sort, "limit": limit}
        return self._pages("/v1/jobs", JobSummary, params)

    def job(self, job_id: str) -> JobView:
        """Return all about a job.

        Raises:
            NotFound: There is no such job.
        """
        return self._get(f"/v1/jobs/{self._job_id(job_id)}", JobView)

    def checkpoints(self, job_id: str) -> list[CheckpointView]:
        """Return the checkpoints that a job can restart from, newest first."""
        return self._get(f"/v1/jobs/{self._job_id(job_id)}/checkpoints", Page[CheckpointView]).data

    def events(self, job_id: str, *, after_seq: int = 0) -> Iterator[EventView]:
        """Yield a job's events so far, oldest first."""
        job_id = self._job_id(job_id)
        while True:
            page = self._connection.send(calls.get_events(job_id, after_seq=after_seq))
            yield from page.data
            if not page.has_more or not page.data:
                return
            after_seq = page.data[-1].seq

    def watch(
        self, job_id: str, *, after_seq: int = 0, patience_seconds: float = PATIENCE_SECONDS
    ) -> Iterator[Update]:
        """Yield a job's events as they happen, until it has ended.

        A broken stream is resumed where it broke, without losing or repeating an event. The end of
        the stream counts as the job's end only if the service says so.

        Args:
            job_id: Id of the job, or its name for the newest of that name.
            after_seq: Start after this event; 0 starts with the first.
            patience_seconds: How long to wait for a service that is away.

        Raises:
            ConnectionFailed: The service was away for longer than that.
        """
        return watch_events(
            self._connection,
            self._job_id(job_id),
            after_seq=after_seq,
            patience_seconds=patience_seconds,
        )

    def wait(
        self,
        job_id: str,
        *,
        timeout_seconds: float | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> JobView:
        """Wait until a job has ended, and return it.

        Args:
            job_id: Id of the job, or its name for the newest of that name.
            timeout_seconds: Longest wait for the job's end; None waits as long as it takes.
            patience_seconds: How long to wait for a service that is away.

        Raises:
            ConnectionFailed: The service was away for longer than that.
            WaitTimeout: The time is over; the job continues.
        """
        job_id = self._job_id(job_id)
        if timeout_seconds is not None:
            return self._wait_at_most(timeout_seconds, job_id, patience_seconds)
        for _ in self.watch(job_id, patience_seconds=patience_seconds):
            continue
        return self.job(job_id)

    def _wait_at_most(
        self, timeout_seconds: float, job_id: str, patience_seconds: float
    ) -> JobView:
        end, pause = time.monotonic() + timeout_seconds, 0.05
        while True:
            outage = Outage(patience_seconds=patience_seconds)
            view = ask_patiently(lambda: self.job(job_id), outage=outage)
            rest = end - time.monotonic()
            if view.is_terminal:
                return view
            if rest <= 0:
                raise WaitTimeout(f"job {view.name} is {view.status} after {timeout_seconds:g} s")
            time.sleep(min(pause, rest))
            pause = min(1.0, pause * 1.5)

    def logs(
        self,
        job_id: str,
        *,
        offset: int | None = None,
        tail: int | None = None,
        attempt: int | None = None,
        follow: bool = False,
    ) -> Iterator[bytes]:
        """Yield the log of a job's attempt, in pieces.

        Args:
            job_id: Id of the job, or its name for the newest of that name.
            offset: First byte to read.
            tail: Read only the last lines of what exists, instead of from `offset`.
            attempt: Number of the attempt; by default the newest.
            follow: Continue as the log grows and through later attempts, until the job has ended.
        """
        job_id = self._job_id(job_id)
        path = f"/v1/jobs/{job_id}/logs"
        params = {"offset": offset, "tail": tail, "attempt": attempt}
        response = self._connection.request("GET", path, params=params)
        if response.content:
            yield response.content
        if follow:
            yield from follow_log(
                self._connection,
                job_id,
                attempt_id=response.headers.get("Redkiln-Attempt"),
                offset=int(response.headers.get("Redkiln-Log-Size", 0)),
                only=attempt,
            )

    def metrics(
        self,
        job_id: str,
        *,
        names: Sequence[str] | None = None,
        after_step: int | None = None,
        from_step: int | None = None,
        to_step: int | None = None,
        max_points: int | None = None,
    ) -> list[Series]:
        """Return the metrics of a job over its steps.

        Args:
            job_id: Id of the job, or its name for the newest of that name.
            names: Names of the series; None for all.
            after_step: Return only newer points.
            from_step: Return only points from this step on.
            to_step: Return only points up to this step.
            max_points: Most points of each series; longer ones are thinned for display.
        """
        call = calls.get_metrics(
            self._job_id(job_id),
            names=names,
            after_step=after_step,
            from_step=from_step,
            to_step=to_step,
            max_points=max_points,
        )
        return self._connection.send(call)

    def metrics_frame(
        self, job_id: str, *, names: Sequence[str] | None = None, max_points: int | None = None
    ) -> Any:
        """Return the metrics of a job as a pandas DataFrame: a row a step, a column a metric.

        Args:
            job_id: Id of the job, or its name for the newest of that name.
            names: Names of the series; None for all.
            max_points: Most points of each series; longer ones are thinned.

        Raises:
            RedkilnError: pandas is not installed.
        """
        return to_frame(self.metrics(job_id, names=names, max_points=max_points))

    def live(self, job_id: str, *, patience_seconds: float = PATIENCE_SECONDS) -> JobView:
        """Show a job with its curves in a notebook until it has ended, and return it.

        Args:
            job_id: Id of the job.
            patience_seconds: How long to wait for a service that is away.

        Raises:
            ConnectionFailed: The service was away for longer than that.
            RedkilnError: IPython is not installed.
        """

        def render() -> str:
            series = self.metrics(job_id, max_points=CURVE_POINTS)
            return render_card(self.job(job_id), series)

        show_live(render, self.watch(job_id, patience_seconds=patience_seconds))
        return self.job(job_id)

    def telemetry(
        self,
        job_id: str,
        *,
        names: Sequence[str] | None = None,
        after_ms: int | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        max_points: int | None = None,
    ) -> list[TelemetrySeries]:
        """Return the sensor readings of a job's GPUs and processes over time.

        Args:
            job_id: Id of the job, or its name for the newest of that name.
            names: Names of the series (`gpu/0/power_watts`, `host/cpu_ratio`, ...); None for all.
            after_ms: Return only newer points (milliseconds since 1970).
            from_ms: Return only points from this time on.
            to_ms: Return only points up to this time.
            max_points: Most points of each series; longer ones are thinned for display.
        """
        params = {
            "names": ",".join(names) if names else None,
            "after_ms": after_ms,
            "from_ms": from_ms,
            "to_ms": to_ms,
            "max_points": max_points,
        }
        path = f"/v1/jobs/{self._job_id(job_id)}/telemetry"
        body = self._connection.request("GET", path, params=params).json()
        return [TelemetrySeries.model_validate(item) for item in body["series"]]

    def preview(self, job_id: str, *, etag: str | None = None) -> Preview | None:
        """Return the newest sample predictions of a job; None if `etag` is that of the newest.

        Args:
            job_id: Id of the job, or its name for the newest of that name.
            etag: Etag of the preview that the caller has.

        Raises:
            NotFound: The job has none, or does not exist.
        """
        headers = {"If-None-Match": etag} if etag else {}
        path = f"/v1/jobs/{self._job_id(job_id)}/preview"
        response = self._connection.request("GET", path, headers=headers)
        if response.status_code == HTTPStatus.NOT_MODIFIED:
            return None
        return Preview(
            content=response.content,
            media_type=response.headers["Content-Type"].partition(";")[0],
            step=int(response.headers["Redkiln-Step"]),
            etag=response.headers["ETag"],
        )
