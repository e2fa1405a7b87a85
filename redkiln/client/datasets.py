"""Data sets: sent, registered, waited for."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from redkiln.client.requests import Requests
from redkiln.dataset_view import DatasetStatus, DatasetView
from redkiln.errors import (
    ConnectionFailed,
    DatasetInvalid,
    TransferError,
    WaitTimeout,
)
from redkiln.packing import Package, open_package
from redkiln.tables import FILE_TYPES
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
        self,
        path: Path | str,
        name: str | None = None,
        *,
        task: str | None = None,
        target: str | None = None,
        text: str | None = None,
        columns: Mapping[str, str] | None = None,
        header: bool | None = None,
        delimiter: str | None = None,
        decimal: str | None = None,
        missing: Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
        on_progress: OnUpload | None = None,
    ) -> DatasetView:
        """Upload a folder (as a deterministic tar), a zip or tar, or a table as a data set.

        A set with the same name, bytes and options that the service has already is not sent again.
        What is not said about a table is inferred from its content; the set's notes say what was.

        Args:
            path: the folder, archive, or CSV, TSV, JSON-lines or Parquet file.
            name: of the data set; by default the file's, without its ending.
            task: of a table: text-classification, tabular-classification or tabular-regression.
            target: the column to predict.
            text: the column of a text-classification's text.
            columns: what columns are used as: numeric, categorical, text or ignored.
            header: whether the first row names the columns.
            delimiter: between the fields of a CSV: one character, or `tab`.
            decimal: before the decimals of numbers: `.` or `,`; the other may separate thousands.
            missing: words that stand for no value, instead of `redkiln.tables.MISSING_WORDS`; none
                leaves only what is empty.
            classes: all classes of the target, in the order of their labels.
            on_progress: told how far reading and uploading are.

        Raises:
            PackingError: it cannot be read, or is neither a folder, a zip or tar, nor a table.
            ApiError: 422 when the options contradict each other.
        """
        said = {
            "task": task,
            "target": target,
            "text": text,
            "columns": dict(columns) if columns else None,
            "header": header,
            "delimiter": delimiter,
            "decimal": decimal,
            "missing": None if missing is None else list(missing),
            "classes": None if classes is None else list(classes),
        }
        options = {name: value for name, value in said.items() if value is not None}
        package = open_package(Path(path))
        name = name or dataset_name(Path(path))
        sha256 = package.digest(_counter("reading", package.size_bytes, on_progress))
        known = self._find_same_dataset(name, sha256, options)
        if known is not None:
            return known
        return self._upload(package, name, sha256, options, on_progress)

    def register_folder(
        self, path: Path | str, name: str | None = None, **options: Any
    ) -> DatasetView:
        """Register a folder where it lies, on the service's machine, without copying it.

        Args:
            path: the folder, under one of the service's data roots.
            name: of the data set; by default the folder's.
            options: about a table in it, as `push_dataset` takes them.

        Raises:
            ApiError: 403 or 422 when the path is outside the roots.
        """
        folder = Path(path).expanduser().absolute()
        response = self._connection.request(
            "POST",
            "/v1/datasets",
            params={"name": name or dataset_name(folder)},
            json={"path": str(folder), **options},
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

    def _find_same_dataset(
        self, name: str, sha256: str, options: Mapping[str, Any]
    ) -> DatasetView | None:
        """The newest set of this name, if it has these bytes and options and was not refused."""
        newest = next(self.datasets(name=name), None)
        is_same = newest is not None and (newest.sha256, newest.options) == (sha256, options)
        if newest and is_same and newest.status is not DatasetStatus.INVALID:
            return newest
        return None

    def _upload(
        self,
        package: Package,
        name: str,
        sha256: str,
        options: Mapping[str, Any],
        on_progress: OnUpload | None,
    ) -> DatasetView:
        outage = Outage(patience_seconds=UPLOAD_PATIENCE_SECONDS)
        while True:
            report = _counter("uploading", package.size_bytes, on_progress)
            try:
                response = self._connection.request(
                    "POST",
                    "/v1/datasets",
                    params={"name": name, **_as_parameters(options)},
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
                known = self._find_same_dataset(name, sha256, options)
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
    for ending in (".gz", ".xz", ".bz2", ".zip", ".tar", ".tgz", *FILE_TYPES):
        stem = stem.removesuffix(ending)
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")
    return cleaned[:100] or "dataset"


def _as_parameters(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a table as query parameters."""
    parameters = {
        name: value for name, value in options.items() if name not in ("columns", "classes")
    }
    if parameters.get("missing") == []:
        parameters["missing"] = [""]  # a parameter without a value would not be sent
    if options.get("classes"):
        parameters["class"] = options["classes"]
    uses = options.get("columns", {})
    if uses:
        parameters["column"] = [f"{name}={use}" for name, use in uses.items()]
    return parameters


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
