"""Data sets: sent, registered, waited for."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from redkiln.client.requests import Requests
from redkiln.errors import (
    ConnectionFailed,
    DatasetInvalid,
    TransferError,
    WaitTimeout,
)
from redkiln.job import (
    DatasetStatus,
    DatasetView,
)
from redkiln.packing import Package, open_package
from redkiln.watching import (
    Outage,
)

UPLOAD_READ_SECONDS = 600.0
"""The service answers an upload when all of it is on its disk."""

UPLOAD_PATIENCE_SECONDS = 120.0
"""How long an upload that breaks off is begun again."""

Stage = Literal["reading", "uploading"]
OnUpload = Callable[[Stage, int, int], None]
"""Told the stage, the bytes done in it, and the bytes in all."""


class Datasets(Requests):
    """The methods of a client that are about data sets."""

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
