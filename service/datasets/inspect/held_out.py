"""The process that collects a test split: one argument, the path of a `HeldOutOrder` as JSON.

It writes `samples.zip`. Of a table it has `rows.csv`; of images their files under their positions
in the split, and `labels.csv`.
"""

import csv
import io
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq
from PIL import Image
from pydantic import BaseModel

from redkiln.cells import label_file
from redkiln.datasets import IMAGE_FORMATS, DatasetIndex
from redkiln.tables import LABELS, METADATA_KEY, TARGET, Column, TableIndex
from service.datasets.inspect.images import BadImage
from service.datasets.inspect.limits import GIB, Limits, confine
from service.datasets.inspect.source import Source, open_archive, open_folder
from service.datasets.inspect.tiles import Pictures, TileImage

RESULT = "samples.zip"
ROWS = "rows.csv"
MOST_BYTES = 4 * GIB
_CPU_SECONDS = 110


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
    limits = replace(
        Limits(), memory_bytes=4 * GIB, cpu_seconds=_CPU_SECONDS, output_bytes=MOST_BYTES
    )
    confine(limits, parent_pid=order.parent_pid)
    # Images are compressed already.
    with zipfile.ZipFile(order_path.parent / RESULT, "w") as target:
        if order.kind == "table":
            text = write_rows(Path(order.index_path))
            target.writestr(ROWS, text, zipfile.ZIP_DEFLATED)
            return
        index = DatasetIndex.model_validate_json(Path(order.index_path).read_bytes())
        folder = order_path.parent
        opened = (
            open_folder(Path(order.path), order.below)
            if order.kind == "folder"
            else open_archive(Path(order.path), work_dir=folder, limits=limits)
        )
        with opened as source:
            _add_images(target, index, source, limits=limits)


def write_rows(index_path: Path) -> str:
    """Return the test rows of a table as CSV, which `redkiln predict` reads with the same values.

    Categories that the training split lacks, and all missing values, are empty.
    """
    text = io.StringIO()
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
    return text.getvalue()


def _write_cell(column: Column, value: Any) -> str:
    if value is None:
        return ""
    if column.type == "categorical":
        return column.categories[int(value)]
    text = str(value)
    is_comma = column.written is not None and column.written.decimal == ","
    return text.replace(".", ",") if is_comma else text


def _write_target(index: TableIndex, row: dict[str, Any]) -> str:
    if index.labels_separator is not None:
        return index.labels_separator.join(index.classes[label] for label in row[LABELS])
    return index.classes[row[TARGET]] if index.classes else str(row[TARGET])


def _add_images(
    target: zipfile.ZipFile, index: DatasetIndex, source: Source, *, limits: Limits
) -> None:
    wanted = index.splits.get("test", [])
    paths = {sample.path for sample in wanted}
    files = source.list_files(limits=limits).files
    pictures = Pictures(
        source, {one.path: one for one in files if one.path in paths}, limits=limits
    )
    labels = io.StringIO()
    writer = csv.writer(labels, lineterminator="\r\n")
    writer.writerow(["file", "labels"])
    for position, sample in enumerate(wanted):
        content = pictures.read(TileImage(sample.path, sample.row, sample.array))
        name = f"{position}.{_name_format(content, sample.path)}"
        target.writestr(name, content)
        chosen = [sample.label] if sample.labels is None else sample.labels
        separator = index.labels_separator or label_file.SEPARATOR
        writer.writerow([name, separator.join(index.classes[label] for label in chosen)])
    target.writestr(label_file.NAME, labels.getvalue(), zipfile.ZIP_DEFLATED)


def _name_format(content: bytes, path: str) -> str:
    """Return the ending of a file name, by the content."""
    try:
        with Image.open(io.BytesIO(content), formats=IMAGE_FORMATS) as image:
            return str(image.format).lower()
    except Exception as error:  # noqa: BLE001  a decoder may raise anything on hostile bytes
        raise BadImage("bad_image", f"{path}: {error}") from None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
