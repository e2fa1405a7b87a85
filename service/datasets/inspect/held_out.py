"""The process that collects a test split: one argument, the path of a `HeldOutOrder` as JSON.

It writes `samples.zip`. Of a table it has `rows.csv`; of images their files under their positions
in the split, and their answers (`service.datasets.inspect.answers`).
"""

import csv
import hashlib
import io
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TextIO

import pyarrow.parquet as pq
from PIL import Image
from pydantic import BaseModel

from redkiln.annotations import AnyImageIndex, parse_image_index
from redkiln.cells.amounts import PERCENT
from redkiln.datasets import IMAGE_FORMATS
from redkiln.tables import LABELS, METADATA_KEY, TARGET, Column, TableIndex, Written
from service.datasets.inspect.answers import write_answers
from service.datasets.inspect.images import BadImage
from service.datasets.inspect.limits import GIB, Limits, confine
from service.datasets.inspect.listing import Entry, Listing
from service.datasets.inspect.source import Source, open_archive, open_folder
from service.datasets.inspect.tiles import Pictures, TileImage

RESULT = "samples.zip"
REFUSAL = "refusal.json"
"""File that says why the data set does not give a result."""
ROWS = "rows.csv"
MOST_BYTES = 4 * GIB
_CPU_SECONDS = 110


class Refusal(BaseModel):
    """Why a test split cannot be collected."""

    code: Literal["dataset_changed", "split_too_large"]
    message: str


class RefusedError(Exception):
    """A test split cannot be collected, because of the data set.

    Args:
        refusal: The reason, for the service.
    """

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.message)


class HeldOutOrder(BaseModel):
    """The test split to collect.

    Attributes:
        index_path: Path of the data set's index.
        kind: Kind of the data set; `table` needs only the index.
        path: Path of the archive, or of the trusted root that contains the folder.
        below: Path components of the folder below that root.
        parent_pid: Process that waits for the samples; this one ends with it.
    """

    index_path: str
    kind: Literal["archive", "folder", "table"]
    path: str = ""
    below: list[str] = []
    parent_pid: int


def main(order_path: Path) -> None:
    """Collect the order's samples into a zip next to it."""
    order = HeldOutOrder.model_validate_json(order_path.read_bytes())
    # The size of the result is checked; a compressed tar is unpacked, and may be larger.
    limits = replace(Limits(), memory_bytes=4 * GIB, cpu_seconds=_CPU_SECONDS)
    confine(limits, parent_pid=order.parent_pid)
    try:
        _collect(order, order_path.parent, limits)
    except RefusedError as error:
        (order_path.parent / REFUSAL).write_text(error.refusal.model_dump_json())


def _collect(order: HeldOutOrder, folder: Path, limits: Limits) -> None:
    # Images are compressed already.
    with (folder / RESULT).open("wb") as file, zipfile.ZipFile(file, "w") as target:
        if order.kind == "table":
            # Row by row: a long split of texts does not fit into the memory of this process.
            packed = zipfile.ZipInfo(ROWS)
            packed.compress_type = zipfile.ZIP_DEFLATED
            with (
                target.open(packed, "w", force_zip64=True) as raw,
                io.TextIOWrapper(raw, "utf-8", newline="") as text,
            ):
                write_rows(Path(order.index_path), text, check=lambda: require_size(file.tell()))
            return
        index = parse_image_index(Path(order.index_path).read_bytes())
        opened = (
            open_folder(Path(order.path), order.below)
            if order.kind == "folder"
            else open_archive(Path(order.path), work_dir=folder, limits=limits)
        )
        with opened as source:
            _add_images(
                target, index, source, limits=limits, check=lambda: require_size(file.tell())
            )


class Unchanged(Source):
    """A folder whose files are compared with the index: it may have changed since validation.

    Args:
        source: The folder.
        digests: Digest of each file of the split.
    """

    has_digest = False

    def __init__(self, source: Source, digests: Mapping[str, str | None]) -> None:
        self._source = source
        self._digests = digests

    def list_files(self, *, limits: Limits) -> Listing:
        """List the files; see `Source`."""
        return self._source.list_files(limits=limits)

    def read(self, entry: Entry, *, limits: Limits) -> bytes:
        """Return a file's content; see `Source`.

        Raises:
            RefusedError: It differs from the file that was validated.
        """
        content = self._source.read(entry, limits=limits)
        if hashlib.sha256(content).hexdigest() != self._digests[entry.path]:
            raise _changed(entry.path)
        return content


def _changed(path: str) -> RefusedError:
    message = f"{path} has changed since the folder was registered; register the folder again"
    return RefusedError(Refusal(code="dataset_changed", message=message))


def require_size(num_bytes: int) -> None:
    """Check the size of the result so far.

    Raises:
        RefusedError: It is too large.
    """
    if num_bytes > MOST_BYTES:
        message = (
            f"the test split is larger than {MOST_BYTES // GIB} GiB; take the samples from your "
            "own copy of the data"
        )
        raise RefusedError(Refusal(code="split_too_large", message=message))


def write_rows(index_path: Path, text: TextIO, *, check: Callable[[], None] = lambda: None) -> None:
    """Write the test rows of a table as CSV, which `redkiln predict` reads with the same values.

    Categories that the training split lacks, and all missing values, are empty.

    Args:
        index_path: Path of the table's index.
        text: Open file, with universal newlines off.
        check: Called after each batch of rows.
    """
    writer = csv.writer(text, lineterminator="\r\n")
    with pq.ParquetFile(index_path) as file:
        index = TableIndex.model_validate_json(file.schema_arrow.metadata[METADATA_KEY.encode()])
        writer.writerow([*(column.name for column in index.columns), index.target])
        skipped = index.num_train
        for batch in file.iter_batches():
            start = min(skipped, batch.num_rows)
            skipped -= start
            for row in batch.slice(start).to_pylist():
                cells = [_write_cell(column, row[column.name]) for column in index.columns]
                writer.writerow([*cells, _write_target(index, row)])
            check()


def _write_cell(column: Column, value: Any) -> str:
    if value is None:
        return ""
    if column.type == "categorical":
        return column.categories[int(value)]
    return _write_number(value, column.written)


def _write_number(value: float, written: Written | None) -> str:
    text = str(value)
    if written is None:
        return text
    percent = PERCENT if written.unit == PERCENT and "e" not in text else ""
    return (text if written.decimal == "." else text.replace(".", ",")) + percent


def _write_target(index: TableIndex, row: dict[str, Any]) -> str:
    if index.labels_separator is not None:
        return index.labels_separator.join(index.classes[label] for label in row[LABELS])
    if index.classes:
        return str(index.classes[row[TARGET]])
    return _write_number(row[TARGET], index.target_written)


def _add_images(
    target: zipfile.ZipFile,
    index: AnyImageIndex,
    source: Source,
    *,
    limits: Limits,
    check: Callable[[], None],
) -> None:
    wanted = index.splits.get("test", [])
    paths = {sample.path for sample in wanted}
    files = source.list_files(limits=limits).files
    if not source.has_digest:
        source = Unchanged(source, {one.path: one.sha256 for one in wanted})
    entries = {one.path: one for one in files if one.path in paths}
    for missing in sorted(paths - entries.keys())[:1]:
        raise _changed(missing)
    pictures = Pictures(source, entries, limits=limits)
    names = []
    for position, sample in enumerate(wanted):
        content = pictures.read(TileImage(sample.path, sample.row, sample.array))
        names.append(f"{position}.{_name_format(content, sample.path)}")
        target.writestr(names[-1], content)
        check()
    for name, content in write_answers(index, names):
        # Masks are PNG files, which are compressed already.
        is_text = not name.endswith(".png")
        target.writestr(name, content, zipfile.ZIP_DEFLATED if is_text else zipfile.ZIP_STORED)
        check()


def _name_format(content: bytes, path: str) -> str:
    """Return the ending of a file name, by the content."""
    try:
        with Image.open(io.BytesIO(content), formats=IMAGE_FORMATS) as image:
            return str(image.format).lower()
    except Exception as error:  # noqa: BLE001  a decoder may raise anything on hostile bytes
        raise BadImage("bad_image", f"{path}: {error}") from None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
