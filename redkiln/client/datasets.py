"""Data sets: uploading, registering, listing, and waiting for validation."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from redkiln.client.packing import Package, open_package
from redkiln.client.part_upload import PartUpload
from redkiln.client.requests import Requests
from redkiln.client.watching import Outage
from redkiln.errors import (
    ConnectionFailed,
    DatasetInvalid,
    TransferError,
    WaitTimeout,
)
from redkiln.spec.written import make_name
from redkiln.tables import FILE_TYPES
from redkiln.views.dataset import DatasetStatus, DatasetView
from redkiln.views.sample import RowPage, SamplePage

SINGLE_BYTES = 8 * 1024**2
"""Size up to which a data set is sent in one request; larger ones are sent in parts."""

UPLOAD_READ_SECONDS = 600.0
"""Longest wait for the answer to an upload, which comes once all of it is on the service's disk."""

UPLOAD_PATIENCE_SECONDS = 120.0
"""For how long an interrupted upload is started again."""

Stage = Literal["reading", "uploading"]
OnUpload = Callable[[Stage, int, int], None]
"""Called with the stage, the bytes done in it, and its total bytes."""


class Datasets(Requests):
    """Client methods for data sets."""

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
        encoding: str | None = None,
        decimal: str | None = None,
        missing: Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
        labels_separator: str | None = None,
        skip_bad: int | None = None,
        wait: bool = False,
        on_progress: OnUpload | None = None,
    ) -> DatasetView:
        """Upload a folder (as a deterministic tar), a zip or tar, or a table as a data set.

        A set that the service already has with the same bytes is not sent again. A large one is
        sent in parts: if the connection breaks, or the program is started again within a day, only
        missing parts are sent.
        Options of a table that are not given are inferred from its content; the notes of the set
        list them.

        Args:
            path: Folder, archive, or CSV, TSV, JSON-lines or Parquet file.
            name: Name of the data set; by default that of the file, without its suffix.
            task: Task of a table: text-classification, tabular-classification or
                tabular-regression; or of annotated images: object-detection;
                instance-segmentation or semantic-segmentation, which read regions as masks.
            target: Column to predict.
            text: Column with the text of a text-classification.
            columns: Use of columns by name: numeric, categorical, text or ignored.
            header: Whether the first row names the columns.
            delimiter: Separator between the fields of a CSV: one character, or `tab`.
            encoding: Encoding of a CSV, by one of Python's names; found for Unicode and for
                Western European text.
            decimal: Decimal mark of numbers: `.` or `,`; the other may separate thousands.
            missing: Words that mean a missing value, instead of `redkiln.tables.MISSING_WORDS`;
                an empty list means that only empty fields are missing.
            classes: All classes of the target, in the order of their labels.
            labels_separator: Separator of the labels in a cell of the target, such as `;` in
                `css;java`, if a row or an image can have several labels; `none` if each cell is
                one class, even if it looks like a list.
            skip_bad: Number of unusable rows or image files that are skipped, rows without a
                target included; by default up to 1 %, but no row without a target.
            wait: Whether to return only once the set is validated, as `wait_dataset` does, and to
                issue a `DatasetWarning` if it has warnings.
            on_progress: Called with the progress of reading and uploading.

        Raises:
            DatasetInvalid: With `wait`: the set was refused.
            PackingError: The path cannot be read, or is not a folder, zip, tar or table.
            ApiError: 422 if the options contradict each other.
        """
        given = {
            "task": task,
            "target": target,
            "text": text,
            "columns": dict(columns) if columns else None,
            "header": header,
            "delimiter": delimiter,
            "encoding": encoding,
            "decimal": decimal,
            "missing": None if missing is None else list(missing),
            "classes": None if classes is None else list(classes),
            "labels_separator": labels_separator,
            "skip_bad": skip_bad,
        }
        options = {name: value for name, value in given.items() if value is not None}
        package = open_package(Path(path))
        name = name or dataset_name(Path(path))
        sha256 = package.digest(_counter("reading", package.size_bytes, on_progress))
        if package.size_bytes > SINGLE_BYTES:
            pushed = self._upload_parts(package, name, sha256, options, on_progress)
        else:
            known = self._find_same_dataset(name, sha256, options)
            pushed = known or self._upload(package, name, sha256, options, on_progress)
        if not wait:
            return pushed
        validated = self.wait_dataset(pushed.id)
        self._warn_of_data(validated)
        return validated

    def register_folder(
        self, path: Path | str, name: str | None = None, **options: Any
    ) -> DatasetView:
        """Register a folder in place, on the service's machine, without copying it.

        Args:
            path: Folder below one of the service's data roots.
            name: Name of the data set; by default that of the folder.
            options: Options for a table in it, as for `push_dataset`.

        Raises:
            ApiError: 403 or 422 if the path is outside the data roots.
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
        """Yield the registered data sets, newest first, and the built-in ones.

        Args:
            name: Yield only data sets with this name.
        """
        return self._pages("/v1/datasets", DatasetView, {"name": name})

    def dataset(self, dataset: str) -> DatasetView:
        """Return a data set by its id, or the newest of its name that is not invalid.

        Raises:
            NotFound: There is no such data set.
        """
        return self._get(f"/v1/datasets/{self._dataset_id(dataset)}", DatasetView)

    def wait_dataset(
        self,
        dataset: str,
        *,
        timeout_seconds: float | None = None,
        on_poll: Callable[[DatasetView], None] | None = None,
    ) -> DatasetView:
        """Wait until a data set is validated.

        Args:
            dataset: Id of the data set, or its name for the newest of that name.
            timeout_seconds: Longest wait; None waits as long as it takes.
            on_poll: Called with the data set after each request.

        Raises:
            DatasetInvalid: It was refused; its view says why, file by file.
            WaitTimeout: The time is over.
        """
        dataset = self._dataset_id(dataset)
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
                raise WaitTimeout(
                    f"data set {view.name} is still {view.status} after {timeout_seconds:g} s"
                )
            time.sleep(pause)
            pause = min(1.0, pause * 1.5)

    def dataset_samples(
        self,
        dataset: str,
        *,
        split: Literal["train", "test"] = "train",
        class_name: str | None = None,
        after: str | None = None,
        limit: int = 50,
        mixed: bool = False,
    ) -> SamplePage:
        """Return a page of the images of a data set, with their boxes if it has some.

        Args:
            dataset: Id of the data set, or its name for the newest of that name.
            split: Split to list.
            class_name: Class of the images, or of one of their objects; None for all.
            after: Id of the sample to continue after.
            limit: Most images, 1 to 100.
            mixed: Whether to list the first of each class, then the second of each, and so on;
                without `class_name`.

        Raises:
            NotFound: The data set has no images, or is not ready.
        """
        query = {"split": split, "class": class_name, "after": after, "limit": limit}
        query |= {"mixed": "true"} if mixed else {}
        return self._get(f"/v1/datasets/{self._dataset_id(dataset)}/samples", SamplePage, query)

    def dataset_rows(
        self,
        dataset: str,
        *,
        split: Literal["train", "test"] = "train",
        class_name: str | None = None,
        after: str | None = None,
        limit: int = 50,
        mixed: bool = False,
    ) -> RowPage:
        """Return a page of the rows of a table or of texts, as text.

        Args:
            dataset: Id of the data set, or its name for the newest of that name.
            split: Split to list.
            class_name: Class of the rows; None for all.
            after: Id of the row to continue after.
            limit: Most rows, 1 to 100.
            mixed: Whether to list the first of each class, then the second of each, and so on;
                without `class_name`.

        Raises:
            NotFound: The data set has no rows, or is not ready.
        """
        query = {"split": split, "class": class_name, "after": after, "limit": limit}
        query |= {"mixed": "true"} if mixed else {}
        return self._get(f"/v1/datasets/{self._dataset_id(dataset)}/rows", RowPage, query)

    def samples_picture(self, page: SamplePage) -> bytes | None:
        """Return the picture (PNG) of a page of samples, with their boxes; None without samples."""
        if page.tiles is None or page.tiles.url is None:
            return None
        return self._connection.request("GET", page.tiles.url).content

    def download_test_samples(self, dataset: str, path: Path) -> None:
        """Download the test split of a data set as a zip.

        It has the images with `labels.csv`, with `_annotations.coco.json` (boxes, and the pixels
        of objects if the set has them), or with masks in `masks/` and `classes.txt`; or the rows of
        a table as `rows.csv`.

        Args:
            dataset: Id of the data set, or its name for the newest of that name.
            path: File to write.

        Raises:
            NotFound: The data set is built in, or not ready.
            TransferError: The file cannot be written.
        """
        url = f"/v1/datasets/{self._dataset_id(dataset)}/test-samples"
        with self._connection.stream(url, read_seconds=UPLOAD_READ_SECONDS) as response:
            try:
                with path.open("wb") as file:
                    for chunk in response.iter_raw():
                        file.write(chunk)
            except OSError as error:
                reason = error.strerror or str(error)
                raise TransferError(f"{path} cannot be written: {reason}") from error

    def delete_dataset(self, dataset: str) -> None:
        """Delete a data set; a folder that was registered in place is not touched.

        Raises:
            Conflict: A job that has not ended uses it.
        """
        self._connection.request("DELETE", f"/v1/datasets/{self._dataset_id(dataset)}")

    def _find_same_dataset(
        self, name: str, sha256: str, options: Mapping[str, Any]
    ) -> DatasetView | None:
        """Return the newest set of this name if its bytes and options match and it is valid."""
        newest = next(self.datasets(name=name), None)
        is_same = newest is not None and (newest.sha256, newest.options) == (sha256, options)
        if newest and is_same and newest.status is not DatasetStatus.INVALID:
            return newest
        return None

    def _upload_parts(
        self,
        package: Package,
        name: str,
        sha256: str,
        options: Mapping[str, Any],
        on_progress: OnUpload | None,
    ) -> DatasetView:
        return PartUpload(
            self._connection,
            package,
            sha256=sha256,
            fields={"name": name, **options},
            new_report=lambda: _counter("uploading", package.size_bytes, on_progress),
        ).run()

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
                # Perhaps only the answer was lost.
                known = self._find_same_dataset(name, sha256, options)
                if known is not None:
                    return known
        view = DatasetView.model_validate_json(response.content)
        if view.sha256 not in (None, sha256):
            raise TransferError(f"data set {view.id} was damaged during the upload; push it again")
        return view


def dataset_name(path: Path) -> str:
    """Return a name for the data set at a path, with only the characters that names may have."""
    stem = path.resolve().name
    for ending in (".gz", ".xz", ".bz2", ".zip", ".tar", ".tgz", *FILE_TYPES):
        stem = stem.removesuffix(ending)
    return make_name(stem) or "data"


def _as_parameters(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a table as query parameters."""
    parameters = {
        name: value for name, value in options.items() if name not in ("columns", "classes")
    }
    if parameters.get("missing") == []:
        parameters["missing"] = [""]  # an empty list would not be sent
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
