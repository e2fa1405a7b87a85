"""`AsyncClient`: the main methods of `Client` for programs that use `asyncio`.

    async with redkiln.AsyncClient() as client:
        job = await client.submit({"dataset": "builtin:digits"})
        async for update in client.watch(job.id):
            print(update)
        await client.download_all(job.id, "out/")

Requests are those of `calls`, which `Client` sends too. Downloads run in a thread, by `Client`.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack
from urllib.parse import quote

import httpx
from httpx_sse import EventSource, SSEError

from redkiln.client import Client, calls
from redkiln.client.async_connection import AsyncConnection
from redkiln.client.calls import DryRun, View
from redkiln.client.connection import RetryPolicy
from redkiln.client.requests import warn_of_data
from redkiln.client.selection import Selection, to_params
from redkiln.client.transfer import OnBytes
from redkiln.client.watching import (
    PATIENCE_SECONDS,
    Disconnected,
    Outage,
    Reconnected,
    Update,
    read_message,
    reason_of,
    seq_after,
)
from redkiln.errors import ConnectionFailed, RedkilnError, Unavailable, WaitTimeout
from redkiln.settings import resolve_settings
from redkiln.spec.job_spec import JobSpec
from redkiln.views.artifact import ArtifactView
from redkiln.views.dataset import DatasetView
from redkiln.views.job import EventView, JobSummary, JobView
from redkiln.views.metrics import Series

LONG_POLL_SECONDS = 30.0
"""Longest time that one request waits for a job's end; the service allows 60 s."""
ANSWER_SECONDS = 5.0
"""Time that the last request of a wait has for its answer; then the wait ends in any case."""
SHORT_PAUSE_SECONDS = 0.05
"""Least time between two such requests, should a service answer at once."""


Answer = TypeVar("Answer")


class AsyncClient:
    """An asynchronous client of one Redkiln service.

    Args:
        url: Address of the service, found as by `Client`.
        key: API key, found as by `Client`.
        policy: Retries of repeatable requests.
        transport: Another way to reach the service than TCP, for tests.

    Attributes:
        warns_of_data: Whether a data set with warnings is a `DatasetWarning`, once a client.

    Every method may raise `ConnectionFailed` (no answer) and `ApiError` (the service refused).
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        policy: RetryPolicy | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.warns_of_data = True
        self._warned_of = set[str]()
        self._settings = resolve_settings(url, key)
        self._policy = policy or RetryPolicy()
        self._connection = AsyncConnection(self._settings, policy=self._policy, transport=transport)

    @property
    def url(self) -> str:
        """Address of the service."""
        return self._connection.url

    async def submit(
        self, spec: Mapping[str, Any] | JobSpec, *, idempotency_key: str | None = None
    ) -> JobView:
        """Queue a job; issue a `DatasetWarning` if its data set has warnings; see `Client.submit`.

        Raises:
            Rejected: The spec is wrong; `errors` says where.
        """
        job = await self._connection.send(calls.submit(spec, idempotency_key=idempotency_key))
        if job.dataset_id and self.warns_of_data:
            with suppress(RedkilnError):  # the job is queued, whatever its data set answers
                found = calls.get(f"/v1/datasets/{job.dataset_id}", DatasetView)
                warn_of_data(await self._connection.send(found), self._warned_of, stacklevel=3)
        return job

    async def dry_run(self, spec: Mapping[str, Any] | JobSpec) -> DryRun:
        """Check a spec as `submit` would and fill in its defaults, without creating a job.

        Raises:
            Rejected: The spec is wrong; `errors` says where.
        """
        return await self._connection.send(calls.dry_run(spec))

    async def job(self, job_id: str) -> JobView:
        """Return all about a job.

        Raises:
            NotFound: There is no such job.
        """
        return await self._connection.send(
            calls.get(f"/v1/jobs/{await self._job_id(job_id)}", JobView)
        )

    def jobs(self, **selection: Unpack[Selection]) -> AsyncIterator[JobSummary]:
        """Yield jobs, newest first; further pages are fetched when needed.

        Args:
            **selection: `status` (one or several), `task`, `dataset` (an id), `search` and
                `metadata`; a job must pass all of them.
        """
        return self._pages("/v1/jobs", JobSummary, to_params(selection))

    async def cancel(self, job_id: str) -> JobView:
        """Cancel a job; it is `cancelling` until its trainer has exited.

        Raises:
            Conflict: It has already ended, other than by being cancelled.
        """
        return await self._connection.send(calls.steer(await self._job_id(job_id), "cancel"))

    async def wait(
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
        job_id = await self._job_id(job_id)
        if timeout_seconds is None:
            return await self._wait(job_id, None, patience_seconds=patience_seconds)
        try:
            async with asyncio.timeout(timeout_seconds + ANSWER_SECONDS):
                return await self._wait(job_id, timeout_seconds, patience_seconds=patience_seconds)
        except TimeoutError:
            message = f"job {job_id} has not ended after {timeout_seconds:g} s"
            raise WaitTimeout(f"{message}, or the service is away") from None

    async def _wait(
        self, job_id: str, timeout_seconds: float | None, *, patience_seconds: float
    ) -> JobView:
        """Ask until the job has ended, or until the time is over."""
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        outage = Outage(patience_seconds=patience_seconds)
        while True:
            rest = LONG_POLL_SECONDS if end is None else max(0.0, end - time.monotonic())
            params = {"wait": min(rest, LONG_POLL_SECONDS)}
            try:
                view = await self._connection.send(calls.get(f"/v1/jobs/{job_id}", JobView, params))
            except (ConnectionFailed, Unavailable) as error:
                outage.note(error)
                await asyncio.sleep(outage.pause_seconds)
                continue
            outage.end()
            if view.is_terminal:
                return view
            if end is not None and time.monotonic() >= end:
                message = f"job {view.name} is still {view.status} after {timeout_seconds:g} s"
                raise WaitTimeout(message)
            await asyncio.sleep(SHORT_PAUSE_SECONDS)

    async def events(self, job_id: str, *, after_seq: int = 0) -> AsyncIterator[EventView]:
        """Yield a job's events so far, oldest first."""
        job_id = await self._job_id(job_id)
        while True:
            page = await self._connection.send(calls.get_events(job_id, after_seq=after_seq))
            for event in page.data:
                yield event
            if not page.has_more or not page.data:
                return
            after_seq = page.data[-1].seq

    async def watch(
        self, job_id: str, *, after_seq: int = 0, patience_seconds: float = PATIENCE_SECONDS
    ) -> AsyncIterator[Update]:
        """Yield a job's events as they happen, until it has ended; see `Client.watch`.

        Args:
            job_id: Id of the job, or its name for the newest of that name.
            after_seq: Start after this event; 0 starts with the first.
            patience_seconds: How long to wait for a service that is away.

        Raises:
            ConnectionFailed: The service was away for longer than that.
        """
        job_id = await self._job_id(job_id)
        outage = Outage(patience_seconds=patience_seconds)
        while True:
            headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after_seq)}
            try:
                path = f"/v1/jobs/{job_id}/events"
                async with self._connection.stream(path, headers=headers) as response:
                    async for message in EventSource(response).aiter_sse():
                        if not message.data:
                            continue  # a comment, which keeps the connection open
                        if outage.end():
                            yield Reconnected()
                        if message.event == "end":
                            return
                        update = read_message(message)
                        after_seq = seq_after(update, after_seq)
                        yield update
                error: RedkilnError = ConnectionFailed(self.url, "the stream ended early")
            except SSEError as broken:
                error = ConnectionFailed(self.url, str(broken))
            except (ConnectionFailed, Unavailable) as broken:
                error = broken
            if outage.note(error):
                yield Disconnected(reason_of(error))
            await asyncio.sleep(outage.pause_seconds)

    async def metrics(
        self,
        job_id: str,
        *,
        names: Sequence[str] | None = None,
        after_step: int | None = None,
        from_step: int | None = None,
        to_step: int | None = None,
        max_points: int | None = None,
    ) -> list[Series]:
        """Return the metrics of a job over its steps; see `Client.metrics`."""
        call = calls.get_metrics(
            await self._job_id(job_id),
            names=names,
            after_step=after_step,
            from_step=from_step,
            to_step=to_step,
            max_points=max_points,
        )
        return await self._connection.send(call)

    async def artifacts(self, job_id: str) -> list[ArtifactView]:
        """Return the published files of a job."""
        pages = self._pages(f"/v1/jobs/{await self._job_id(job_id)}/artifacts", ArtifactView)
        return [artifact async for artifact in pages]

    async def download(self, artifact: ArtifactView, path: Path | str) -> Path:
        """Download an artifact in a thread, resuming it, and verify its sha256.

        See `Client.download`. A cancelled task leaves a part that the next call resumes.
        """
        return await _in_thread(lambda told: self._download(artifact, path, told))

    async def download_all(
        self, job_id: str, folder: Path | str, *, names: Sequence[str] | None = None
    ) -> list[Path]:
        """Download a job's artifacts into a folder, in a thread; see `Client.download_all`."""
        return await _in_thread(lambda told: self._download_all(job_id, folder, names, told))

    async def _job_id(self, named: str) -> str:
        """Return the id of a job; see `Requests._job_id`."""
        if calls.is_job_id(named):
            return named
        async for job in self._pages("/v1/jobs", JobSummary, calls.search(named)):
            if job.name == named:
                return job.id
        return quote(named, safe="")

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _pages(
        self, path: str, view: type[View], params: Mapping[str, Any] | None = None
    ) -> AsyncIterator[View]:
        after: str | None = None
        while True:
            page = await self._connection.send(calls.get_page(path, view, params, after=after))
            for item in page.data:
                yield item
            if not page.has_more or page.last_id is None:
                return
            after = page.last_id

    def _download(self, artifact: ArtifactView, path: Path | str, on_bytes: OnBytes) -> Path:
        with self._open_blocking() as client:
            return client.download(artifact, path, on_bytes=on_bytes)

    def _download_all(
        self, job_id: str, folder: Path | str, names: Sequence[str] | None, on_bytes: OnBytes
    ) -> list[Path]:
        with self._open_blocking() as client:
            return client.download_all(job_id, folder, names=names, on_bytes=on_bytes)

    def _open_blocking(self) -> Client:
        return Client(self._settings.url, self._settings.key, policy=self._policy)


class _StopError(Exception):
    """The task that waits for a download was cancelled."""


async def _in_thread(download: Callable[[OnBytes], Answer]) -> Answer:
    """Run a download in a thread. If the task is cancelled, the thread has ended when this returns.

    Two threads that write the same part would spoil it.
    """
    is_cancelled = threading.Event()

    def stop_if_cancelled(_num_bytes: int) -> None:
        if is_cancelled.is_set():
            raise _StopError

    task = asyncio.ensure_future(asyncio.to_thread(download, stop_if_cancelled))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        is_cancelled.set()
        await asyncio.wait([task])
        task.exception()  # so that asyncio does not report it
        raise
