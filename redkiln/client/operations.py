"""Running a service: its workers and their hardware, its keys, its health."""

from typing import Any, Literal

from redkiln.client.requests import Requests
from redkiln.doctor import Diagnosis
from redkiln.hardware import WorkerGpu
from redkiln.job import (
    CreatedKey,
    KeyView,
    WorkerView,
)


class Operations(Requests):
    """The methods of a client that are about the service itself."""

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
        self, name: str, scope: Literal["user", "scripts", "worker", "admin"] = "user"
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
