"""`Client`: everything that the API can do, as typed Python methods.

    with redkiln.Client() as client:
        dataset = client.push_dataset("flowers/", wait=True)
        job = client.submit({"dataset": dataset.id})
        for update in client.watch(job.id):
            print(update)
        client.download_all(job.id, "out/")

Each method is one request, typed and documented, in the file of its noun. Everything that takes
more than one request is in `connection`, `watching`, `transfer` and `packing`.
"""

from types import TracebackType
from typing import Self

import httpx

from redkiln.client.bundles import Bundles
from redkiln.client.calls import DryRun
from redkiln.client.connection import Connection, RetryPolicy
from redkiln.client.datasets import Datasets, OnUpload, Stage, dataset_name
from redkiln.client.jobs import Jobs, Preview, TaskInfo
from redkiln.client.operations import Operations
from redkiln.client.registry import Registry
from redkiln.client.steering import Steering
from redkiln.client.watching import Disconnected, Reconnected, Snapshot, Update
from redkiln.settings import resolve_settings

__all__ = [
    "Client",
    "Disconnected",
    "DryRun",
    "OnUpload",
    "Preview",
    "Reconnected",
    "Snapshot",
    "Stage",
    "TaskInfo",
    "Update",
    "dataset_name",
]


class Client(Jobs, Steering, Registry, Datasets, Bundles, Operations):
    """A synchronous client of one Redkiln service.

    Args:
        url: Address of the service; else `REDKILN_URL`, else http://127.0.0.1:8321.
        key: API key; else `REDKILN_KEY`, `REDKILN_KEY_FILE`, else the admin key of a service that
            runs from a checkout here, if the address is on this machine.
        policy: Retries of repeatable requests.
        transport: Another way to reach the service than TCP, for tests.

    Every method may raise `ConnectionFailed` (no answer) and `ApiError` (the service refused).
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
        self._warned_of = set()
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
        """Close all connections."""
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
