"""Operating a service: its workers and their hardware, its keys, its health."""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import TypeAdapter

from redkiln.client.requests import Requests
from redkiln.views.access.audit import AuditView
from redkiln.views.access.key import CreatedKey, KeyView
from redkiln.views.doctor import Diagnosis
from redkiln.views.hardware import WorkerGpu
from redkiln.views.notice import NoticeTest, NoticeView
from redkiln.views.overview import Overview
from redkiln.views.page import Page
from redkiln.views.storage import RetentionPlan, StorageUse
from redkiln.views.worker import WorkerView


class Operations(Requests):
    """Client methods for the service itself."""

    def workers(self) -> list[WorkerView]:
        """Return the workers that the service knows, live or not."""
        return list(self._pages("/v1/workers", WorkerView))

    def worker(self, worker_id: str) -> WorkerView:
        """Return a worker by its id.

        Raises:
            NotFound: There is no such worker.
        """
        return self._get(f"/v1/workers/{worker_id}", WorkerView)

    def gpus(self, *, worker: str | None = None, arch: str | None = None) -> list[WorkerGpu]:
        """Return the GPUs of the live workers: their facts, telemetry and jobs.

        Args:
            worker: Only those of the worker with this id.
            arch: Only those of this architecture (`gfx1100`).
        """
        return list(self._pages("/v1/gpus", WorkerGpu, {"worker": worker, "arch": arch}))

    def free_gpu(self, gpu_id: str) -> WorkerGpu:
        """Pause the job of a GPU, and keep the GPU free of jobs until it is given back.

        Args:
            gpu_id: Id of the GPU, as `gpus` lists it. Call again to see whether it is free.

        Raises:
            NotFound: No live worker has this GPU.
        """
        response = self._connection.request("POST", f"/v1/gpus/{gpu_id}/free", repeatable=True)
        return WorkerGpu.model_validate_json(response.content)

    def give_gpu_back(self, gpu_id: str) -> WorkerGpu:
        """Let a GPU have jobs again, and resume the job that was paused for it.

        Raises:
            NotFound: No live worker has this GPU.
            Conflict: Its job is still saving its checkpoint.
        """
        response = self._connection.request("DELETE", f"/v1/gpus/{gpu_id}/free")
        return WorkerGpu.model_validate_json(response.content)

    def storage(self) -> StorageUse:
        """Return what takes space on the service's storage, and what can be deleted."""
        return self._get("/v1/storage", StorageUse)

    def retention(
        self, *, keep_jobs_days: float | None = None, keep_files_days: float | None = None
    ) -> RetentionPlan:
        """Return what the service's rules of retention would delete now.

        Args:
            keep_jobs_days: Days to try instead of `REDKILN_KEEP_JOBS_DAYS`.
            keep_files_days: Days to try instead of `REDKILN_KEEP_FILES_DAYS`.
        """
        tried = {"keep_jobs_days": keep_jobs_days, "keep_files_days": keep_files_days}
        return self._get("/v1/storage/retention", RetentionPlan, tried)

    def overview(self) -> Overview:
        """Return what runs, waits and has ended, the GPUs, the disk, and what is wrong."""
        return self._get("/v1/overview", Overview)

    def doctor(self) -> Diagnosis:
        """Return what keeps jobs from running, on the service and its live workers, and fixes."""
        return self._get("/v1/doctor", Diagnosis)

    def keys(self) -> list[KeyView]:
        """Return the API keys, without their secrets; needs an admin key."""
        return list(self._pages("/v1/keys", KeyView))

    def create_key(
        self,
        name: str,
        scope: Literal["user", "scripts", "worker", "admin"] = "user",
        *,
        project: str = "default",
    ) -> CreatedKey:
        """Create an API key of a project; its secret is only in this answer."""
        body = {"name": name, "scope": scope, "project": project}
        response = self._connection.request("POST", "/v1/keys", json=body)
        return CreatedKey.model_validate_json(response.content)

    def revoke_key(self, key_id: str) -> None:
        """Revoke an API key; it stops working at once."""
        self._connection.request("DELETE", f"/v1/keys/{key_id}")

    def rotate_key(self, key_id: str) -> CreatedKey:
        """Replace an API key by a new one like it; the old one stops working."""
        response = self._connection.request("POST", f"/v1/keys/{key_id}/rotate")
        return CreatedKey.model_validate_json(response.content)

    def audit(
        self,
        *,
        key: str | None = None,
        project: str | None = None,
        action: str | None = None,
        object: str | None = None,  # noqa: A002  the name of the field and of the parameter
        outcome: str | None = None,
    ) -> Iterator[AuditView]:
        """Yield who changed what, newest first; needs an admin key.

        Args:
            key: Id or name of a key.
            project: Project of the key.
            action: Text in the action, such as `DELETE`.
            object: Id or name of what was changed.
            outcome: `done`, or why the change was refused.
        """
        wanted = {
            "key": key,
            "project": project,
            "action": action,
            "object": object,
            "outcome": outcome,
        }
        return self._pages("/v1/audit", AuditView, wanted)

    def notices(self) -> list[NoticeView]:
        """Return the newest messages about ended jobs and their delivery; needs an admin key."""
        return self._get("/v1/notices?limit=200", Page[NoticeView]).data

    def test_notices(self) -> list[NoticeTest]:
        """Send a test message to every target of the service; needs an admin key."""
        response = self._connection.request("POST", "/v1/notices/test")
        return TypeAdapter(list[NoticeTest]).validate_json(response.content)

    def health(self) -> dict[str, Any]:
        """Return the service's health; it answers as long as its process lives."""
        body: dict[str, Any] = self._connection.request("GET", "/healthz").json()
        return body
