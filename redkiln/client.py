"""`Client`: everything that the API can do, as typed Python methods.

    with redkiln.Client() as client:
        dataset = client.wait_dataset(client.push_dataset("flowers/").id)
        job = client.submit({"dataset": dataset.id})
        for update in client.watch(job.id):
            print(update)
        client.download_all(job.id, "out/")

The file is long because the API is wide: each method is one request, typed and explained. What
takes more than that lives beside it: `connection`, `watching`, `transfer`, `packing`.
"""

import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import httpx
from pydantic import BaseModel, Field

from redkiln.connection import Connection, RetryPolicy
from redkiln.doctor import Diagnosis
from redkiln.errors import (
    ConnectionFailed,
    DatasetInvalid,
    TransferError,
    WaitTimeout,
)
from redkiln.hardware import WorkerGpu
from redkiln.job import (
    ArtifactView,
    CheckpointView,
    CreatedKey,
    DatasetStatus,
    DatasetView,
    Estimates,
    EventView,
    JobSummary,
    JobView,
    KeyView,
    Page,
    Series,
    TelemetrySeries,
    WorkerView,
)
from redkiln.packing import Package, open_package
from redkiln.settings import resolve_settings
from redkiln.spec import JobSpec
from redkiln.transfer import Download, OnBytes
from redkiln.watching import (
    PATIENCE_SECONDS,
    Disconnected,
    Outage,
    Reconnected,
    Snapshot,
    Update,
    follow_log,
    watch_events,
)

UPLOAD_READ_SECONDS = 600.0
"""The service answers an upload when all of it is on its disk."""

UPLOAD_PATIENCE_SECONDS = 120.0
"""How long an upload that breaks off is begun again."""

__all__ = ["Client", "Disconnected", "DryRun", "Reconnected", "Snapshot", "TaskInfo", "Update"]

View = TypeVar("View", bound=BaseModel)
Stage = Literal["reading", "uploading"]
OnUpload = Callable[[Stage, int, int], None]
"""Told the stage, the bytes done in it, and the bytes in all."""


class TaskInfo(BaseModel):
    """A task that a spec can name."""

    name: str
    description: str = ""


class DryRun(Estimates):
    """What a spec would run as, defaults filled in and `auto` left as it is, and what it takes."""

    dataset_id: str | None = None
    spec: dict[str, Any]
    warnings: list[dict[str, Any]] = Field(default_factory=list)


class Client:
    """A synchronous client of one Redkiln service.

    Args:
        url: address of the service; else `REDKILN_URL`, else http://127.0.0.1:8321.
        key: API key; else `REDKILN_KEY`, `REDKILN_KEY_FILE`, else the admin key of a service that
            runs from a checkout here, if the address is this machine's.
        policy: how requests that may be repeated are.
        transport: another way to the service than TCP, for tests.

    Every method may raise `ConnectionFailed` (no answer) and `ApiError` (a refusal).
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        policy: RetryPolicy | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._policy = policy or RetryPolicy()
        settings = resolve_settings(url, key)
        self._connection = Connection(settings, policy=self._policy, transport=transport)

    @property
    def url(self) -> str:
        """Address of the service."""
        return self._connection.url

    @property
    def is_local(self) -> bool:
        """Whether the service runs on this machine."""
        return self._connection.is_local

    def close(self) -> None:
        """Close every connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def tasks(self) -> list[TaskInfo]:
        """The tasks that a spec can name."""
        return list(self._pages("/v1/tasks", TaskInfo))

    def task_schema(self, task: str) -> dict[str, Any]:
        """JSON Schema of a task's spec, with every default.

        Raises:
            NotFound: no such task.
        """
        schema: dict[str, Any] = self._connection.request("GET", f"/v1/tasks/{task}/schema").json()
        return schema

    def submit(
        self, spec: Mapping[str, Any] | JobSpec, *, idempotency_key: str | None = None
    ) -> JobView:
        """Queue a job.

        Args:
            spec: as `examples/` shows; only `dataset` is needed.
            idempotency_key: a second submission with the same key gets the job of the first; by
                default a new one, so that a repeated request cannot make two jobs.

        Raises:
            Rejected: the spec is wrong; `errors` says where.
        """
        response = self._connection.request(
            "POST",
            "/v1/jobs",
            json=_plain(spec),
            headers={"Idempotency-Key": idempotency_key or str(uuid.uuid4())},
            repeatable=True,
        )
        return JobView.model_validate_json(response.content)

    def dry_run(self, spec: Mapping[str, Any] | JobSpec) -> DryRun:
        """Check a spec as `submit` would, and fill its defaults in; nothing is created.

        Raises:
            Rejected: the spec is wrong; `errors` says where.
        """
        response = self._connection.request(
            "POST", "/v1/jobs", params={"dry_run": "true"}, json=_plain(spec), repeatable=True
        )
        return DryRun.model_validate_json(response.content)

    def jobs(
        self,
        *,
        status: str | None = None,
        task: str | None = None,
        metadata: Mapping[str, str] | None = None,
        limit: int = 100,
    ) -> Iterator[JobSummary]:
        """Jobs, the newest first; further pages are fetched as they are needed.

        Args:
            status: only these.
            task: only of this task.
            metadata: only those whose metadata has all of these.
            limit: size of a page.
        """
        filters = {f"metadata.{name}": value for name, value in (metadata or {}).items()}
        params = {"status": status, "task": task, "limit": limit, **filters}
        return self._pages("/v1/jobs", JobSummary, params)

    def job(self, job_id: str) -> JobView:
        """A job in full.

        Raises:
            NotFound: no such job.
        """
        return self._get(f"/v1/jobs/{job_id}", JobView)

    def cancel(self, job_id: str) -> JobView:
        """Ask for a job to be stopped; it is `cancelling` until its trainer has left.

        Raises:
            Conflict: it has ended already, other than by being cancelled.
        """
        return self._steer(job_id, "cancel")

    def pause(self, job_id: str) -> JobView:
        """Ask for a job to be paused; once it is `paused` its GPU is free.

        Raises:
            Conflict: it has ended, or is being cancelled.
        """
        return self._steer(job_id, "pause")

    def resume(self, job_id: str) -> JobView:
        """Let a paused job go on where it was.

        Raises:
            Conflict: it is not paused.
        """
        return self._steer(job_id, "resume")

    def retry(self, job_id: str, *, start: str | int = "newest") -> JobView:
        """Run a job again that has failed or was cancelled.

        Args:
            job_id: which one.
            start: `newest` or `best` checkpoint, the step of one, or `start` to begin anew.

        Raises:
            Conflict: it has not ended, or has succeeded.
            InvalidRequest: it has no such checkpoint.
        """
        response = self._connection.request(
            "POST", f"/v1/jobs/{job_id}/retry", json={"from": start}
        )
        return JobView.model_validate_json(response.content)

    def checkpoints(self, job_id: str) -> list[CheckpointView]:
        """What a job can go on from, the newest first."""
        return self._get(f"/v1/jobs/{job_id}/checkpoints", Page[CheckpointView]).data

    def delete(self, job_id: str) -> None:
        """Remove a job that has ended, with its artifacts, events and logs.

        Raises:
            Conflict: it is still going on; cancel it first.
        """
        self._connection.request("DELETE", f"/v1/jobs/{job_id}")

    def events(self, job_id: str, *, after_seq: int = 0) -> Iterator[EventView]:
        """What has happened to a job so far, oldest first."""
        while True:
            page = self._get(
                f"/v1/jobs/{job_id}/events",
                Page[EventView],
                {"after_seq": after_seq, "limit": 1000},
            )
            yield from page.data
            if not page.has_more or not page.data:
                return
            after_seq = page.data[-1].seq

    def watch(
        self, job_id: str, *, after_seq: int = 0, patience_seconds: float = PATIENCE_SECONDS
    ) -> Iterator[Update]:
        """What happens to a job, as it happens, until it has ended.

        A broken stream is taken up again where it broke, without losing or doubling an event; the
        end of the stream is the job's end only if the service said so.

        Args:
            job_id: of the job.
            after_seq: begin after this event; 0 begins with the first.
            patience_seconds: how long a service that is away is waited for.

        Raises:
            ConnectionFailed: it was away for longer than that.
        """
        return watch_events(
            self._connection, job_id, after_seq=after_seq, patience_seconds=patience_seconds
        )

    def wait(self, job_id: str, *, patience_seconds: float = PATIENCE_SECONDS) -> JobView:
        """The job once it has ended; see `watch`."""
        for _ in self.watch(job_id, patience_seconds=patience_seconds):
            continue
        return self.job(job_id)

    def logs(
        self,
        job_id: str,
        *,
        offset: int | None = None,
        tail: int | None = None,
        attempt: int | None = None,
        follow: bool = False,
    ) -> Iterator[bytes]:
        """The log of a job's attempt, in pieces.

        Args:
            job_id: of the job.
            offset: first byte wanted.
            tail: only the last lines of what there is, instead of `offset`.
            attempt: its number; by default the newest.
            follow: go on as the log grows and through the next attempts, until the job has ended.
        """
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
        max_points: int | None = None,
    ) -> list[Series]:
        """The metrics of a job over its steps.

        Args:
            job_id: of the job.
            names: only these series.
            after_step: only what is newer.
            max_points: thin each series for display to so many points.
        """
        params = {
            "names": ",".join(names) if names else None,
            "after_step": after_step,
            "max_points": max_points,
        }
        body = self._connection.request("GET", f"/v1/jobs/{job_id}/metrics", params=params).json()
        return [Series.model_validate(item) for item in body["series"]]

    def telemetry(
        self,
        job_id: str,
        *,
        names: Sequence[str] | None = None,
        after_ms: int | None = None,
        max_points: int | None = None,
    ) -> list[TelemetrySeries]:
        """What a job's GPUs and its processes did over time.

        Args:
            job_id: of the job.
            names: only these series (`gpu/0/power_watts`, `host/cpu_ratio`, ...).
            after_ms: only what is newer (milliseconds since 1970).
            max_points: thin each series for display to so many points.
        """
        params = {
            "names": ",".join(names) if names else None,
            "after_ms": after_ms,
            "max_points": max_points,
        }
        body = self._connection.request("GET", f"/v1/jobs/{job_id}/telemetry", params=params).json()
        return [TelemetrySeries.model_validate(item) for item in body["series"]]

    def artifacts(self, job_id: str) -> list[ArtifactView]:
        """The published files of a job; none before it has succeeded."""
        return list(self._pages(f"/v1/jobs/{job_id}/artifacts", ArtifactView))

    def download(
        self, artifact: ArtifactView, path: Path | str, *, on_bytes: OnBytes | None = None
    ) -> Path:
        """Fetch an artifact, resuming what an earlier call left, and verify its sha256.

        Args:
            artifact: one of `artifacts(job_id)`.
            path: the file to write, or a folder to put it in under its own name.
            on_bytes: told how many new bytes are there.

        Raises:
            DigestMismatch: what arrived is not what was published; nothing is kept.
            TransferError: the file cannot be written.
        """
        target = Path(path)
        if target.is_dir():
            target = target / _file_name(artifact)
        return Download(
            self._connection, artifact, target, policy=self._policy, on_bytes=on_bytes
        ).run()

    def download_all(
        self, job_id: str, folder: Path | str, *, names: Sequence[str] | None = None
    ) -> list[Path]:
        """Fetch a job's artifacts into a folder, which is made; see `download`.

        Args:
            job_id: of the job.
            folder: where they go.
            names: only these.
        """
        wanted = [a for a in self.artifacts(job_id) if names is None or a.name in names]
        return [self.download(a, Path(folder) / _file_name(a)) for a in wanted]

    def push_dataset(
        self, path: Path | str, name: str | None = None, *, on_progress: OnUpload | None = None
    ) -> DatasetView:
        """Upload a folder (as a deterministic tar), zip or tar as a data set.

        A set with the same name and the same bytes that the service has already is not sent again.

        Args:
            path: the folder or archive.
            name: of the data set; by default the file's, without its ending.
            on_progress: told how far reading and uploading are.

        Raises:
            PackingError: it cannot be read, or is neither a folder nor a zip or tar.
        """
        package = open_package(Path(path))
        name = name or dataset_name(Path(path))
        sha256 = package.digest(_counter("reading", package.size_bytes, on_progress))
        known = self._find_same_dataset(name, sha256)
        if known is not None:
            return known
        return self._upload(package, name, sha256, on_progress)

    def register_folder(self, path: Path | str, name: str | None = None) -> DatasetView:
        """Register a folder where it lies, on the service's machine, without copying it.

        Args:
            path: the folder, under one of the service's data roots.
            name: of the data set; by default the folder's.

        Raises:
            ApiError: 403 or 422 when the path is outside the roots.
        """
        folder = Path(path).expanduser().absolute()
        response = self._connection.request(
            "POST",
            "/v1/datasets",
            params={"name": name or dataset_name(folder)},
            json={"path": str(folder)},
        )
        return DatasetView.model_validate_json(response.content)

    def datasets(self, *, name: str | None = None) -> Iterator[DatasetView]:
        """Registered data sets, the newest first, and the built-in ones.

        Args:
            name: only those of this name.
        """
        return self._pages("/v1/datasets", DatasetView, {"name": name})

    def dataset(self, dataset: str) -> DatasetView:
        """A data set by its id.

        Raises:
            NotFound: there is none.
        """
        return self._get(f"/v1/datasets/{dataset}", DatasetView)

    def wait_dataset(
        self,
        dataset: str,
        *,
        timeout_seconds: float | None = None,
        on_poll: Callable[[DatasetView], None] | None = None,
    ) -> DatasetView:
        """Wait until a data set is validated.

        Args:
            dataset: its id.
            timeout_seconds: longest wait; None waits for as long as it takes.
            on_poll: told how it looks each time.

        Raises:
            DatasetInvalid: it was refused; the view in it says why, file by file.
            WaitTimeout: it took too long.
        """
        began = time.monotonic()
        pause = 0.05
        while True:
            view = self.dataset(dataset)
            if on_poll:
                on_poll(view)
            if view.status is DatasetStatus.READY:
                return view
            if view.status is DatasetStatus.INVALID:
                raise DatasetInvalid(view)
            if timeout_seconds is not None and time.monotonic() - began > timeout_seconds:
                raise WaitTimeout(f"data set {view.name} is still {view.status}")
            time.sleep(pause)
            pause = min(1.0, pause * 1.5)

    def delete_dataset(self, dataset: str) -> None:
        """Remove a data set; a folder registered where it lies stays untouched.

        Raises:
            Conflict: a job that has not ended uses it.
        """
        self._connection.request("DELETE", f"/v1/datasets/{dataset}")

    def workers(self) -> list[WorkerView]:
        """The workers that the service knows, live or not."""
        return list(self._pages("/v1/workers", WorkerView))

    def worker(self, worker_id: str) -> WorkerView:
        """A worker by its id.

        Raises:
            NotFound: there is none.
        """
        return self._get(f"/v1/workers/{worker_id}", WorkerView)

    def gpus(self, *, worker: str | None = None, arch: str | None = None) -> list[WorkerGpu]:
        """The GPUs of the live workers: what they are, what they do now and for which job.

        Args:
            worker: only this one's, by its id.
            arch: only those of one architecture (`gfx1100`).
        """
        return list(self._pages("/v1/gpus", WorkerGpu, {"worker": worker, "arch": arch}))

    def doctor(self) -> Diagnosis:
        """What keeps jobs from running, on the service and its live workers, and what to type."""
        return self._get("/v1/doctor", Diagnosis)

    def keys(self) -> list[KeyView]:
        """API keys, without their secrets; needs an admin key."""
        return list(self._pages("/v1/keys", KeyView))

    def create_key(
        self, name: str, scope: Literal["user", "worker", "admin"] = "user"
    ) -> CreatedKey:
        """Make an API key; its secret is in the answer and nowhere else."""
        body = {"name": name, "scope": scope}
        response = self._connection.request("POST", "/v1/keys", json=body)
        return CreatedKey.model_validate_json(response.content)

    def revoke_key(self, key_id: str) -> None:
        """Make an API key useless from now on."""
        self._connection.request("DELETE", f"/v1/keys/{key_id}")

    def health(self) -> dict[str, Any]:
        """What the service says of itself; it answers as long as its process lives."""
        body: dict[str, Any] = self._connection.request("GET", "/healthz").json()
        return body

    def _steer(self, job_id: str, verb: str) -> JobView:
        response = self._connection.request("POST", f"/v1/jobs/{job_id}/{verb}", repeatable=True)
        return JobView.model_validate_json(response.content)

    def _get(self, path: str, view: type[View], params: Mapping[str, Any] | None = None) -> View:
        return view.model_validate_json(
            self._connection.request("GET", path, params=params).content
        )

    def _pages(
        self, path: str, view: type[View], params: Mapping[str, Any] | None = None
    ) -> Iterator[View]:
        after: str | None = None
        while True:
            response = self._connection.request(
                "GET", path, params={**(params or {}), "after": after}
            )
            page = Page[view].model_validate_json(response.content)  # type: ignore[valid-type]
            yield from page.data
            if not page.has_more or page.last_id is None:
                return
            after = page.last_id

    def _find_same_dataset(self, name: str, sha256: str) -> DatasetView | None:
        """The newest set of this name, if it has these bytes and was not refused."""
        newest = next(self.datasets(name=name), None)
        if newest and newest.sha256 == sha256 and newest.status is not DatasetStatus.INVALID:
            return newest
        return None

    def _upload(
        self, package: Package, name: str, sha256: str, on_progress: OnUpload | None
    ) -> DatasetView:
        outage = Outage(patience_seconds=UPLOAD_PATIENCE_SECONDS)
        while True:
            report = _counter("uploading", package.size_bytes, on_progress)
            try:
                response = self._connection.request(
                    "POST",
                    "/v1/datasets",
                    params={"name": name},
                    content=_reported(package.chunks(), report),
                    headers={
                        "Content-Type": package.media_type,
                        "Content-Length": str(package.size_bytes),
                    },
                    read_seconds=UPLOAD_READ_SECONDS,
                )
                break
            except ConnectionFailed as error:
                outage.note(error)
                outage.wait()
                # The answer may be all that was lost.
                known = self._find_same_dataset(name, sha256)
                if known is not None:
                    return known
        view = DatasetView.model_validate_json(response.content)
        if view.sha256 not in (None, sha256):
            raise TransferError(
                f"the service received other bytes than were sent (data set {view.id}); try again"
            )
        return view


def dataset_name(path: Path) -> str:
    """A name for the data set at a path, of the characters that a name may have."""
    stem = path.resolve().name
    for ending in (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2"):
        stem = stem.removesuffix(ending)
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")
    return cleaned[:100] or "dataset"


def _plain(spec: Mapping[str, Any] | JobSpec) -> dict[str, Any]:
    if isinstance(spec, JobSpec):
        return spec.model_dump(mode="json", exclude_unset=True) | {"task": spec.task}
    return dict(spec)


def _file_name(artifact: ArtifactView) -> str:
    if Path(artifact.name).name != artifact.name or artifact.name.startswith("."):
        raise TransferError(f"{artifact.name!r} is no name for a file here; it was not written")
    return artifact.name


def _counter(stage: Stage, total: int, on_progress: OnUpload | None) -> Callable[[int], None]:
    done = 0

    def count(num_bytes: int) -> None:
        nonlocal done
        done += num_bytes
        if on_progress:
            on_progress(stage, done, total)

    return count


def _reported(chunks: Iterator[bytes], report: Callable[[int], None]) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk
        report(len(chunk))
