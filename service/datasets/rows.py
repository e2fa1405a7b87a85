"""Reads rows of texts and tables in a limited process."""

import os
import shutil
import tempfile
from pathlib import Path

from redkiln.nearest import suggest
from redkiln.spec.problems import SpecProblem
from redkiln.tables import TABLE_TASKS
from redkiln.views.dataset import DatasetStatus
from service.datasets.child import run_child
from service.datasets.inspect.rows_order import RESULT, Rows, RowsOrder
from service.datasets.models import Dataset
from service.datasets.samples import NOT_MIXED, Split
from service.errors import NotFound, Unprocessable
from service.storage import Storage
from service.turns import Turns

MODULE = "service.datasets.inspect.rows"
_reading = Turns("pages of rows are being read")


def read_rows(
    storage: Storage,
    dataset: Dataset,
    *,
    split: Split,
    class_name: str | None,
    after: int,
    limit: int,
    is_mixed: bool = False,
) -> Rows:
    """Return rows of a split, in the order of the index.

    Args:
        storage: Place of the index.
        dataset: A table.
        split: Split to read.
        class_name: Class to read; None for all.
        after: Position in the split to continue after; -1 for the start.
        limit: Most rows to return.
        is_mixed: Whether to return the first row of each class, then the second of each, and so on;
            without `class_name`.

    Raises:
        NotFound: The data set is not a table, or is not ready.
        Unprocessable: There is no such class, or `is_mixed` has one of the other choices.
        Unavailable: The rows could not be read in time, or too many others are being read.
    """
    is_ready = dataset.status == DatasetStatus.READY and dataset.index_sha256 is not None
    if not is_ready or dataset.task not in TABLE_TASKS:
        message = (
            "only the rows of uploaded tables and texts that are ready can be listed; the worker "
            "creates built-in ones"
        )
        raise NotFound(message, code="no_rows")
    if is_mixed and class_name is not None:
        raise Unprocessable(NOT_MIXED)
    label = None if class_name is None else _find_label(dataset, class_name)
    work_dir = Path(tempfile.mkdtemp(prefix="rows-", dir=storage.work_dir))
    try:
        with _reading.take(), storage.local_copy(str(dataset.index_sha256)) as path:
            order = RowsOrder(
                path=str(path.absolute()),
                split=split,
                label=label,
                after=after,
                limit=limit,
                is_mixed=is_mixed,
                parent_pid=os.getpid(),
            )
            run_child(MODULE, order, work_dir=work_dir, what="the rows could not be read")
        return Rows.model_validate_json((work_dir / RESULT).read_bytes())
    finally:
        shutil.rmtree(work_dir, ignore_errors=True)


def _find_label(dataset: Dataset, class_name: str) -> int:
    classes: list[str] = dataset.report.get("classes", [])
    if class_name not in classes:
        message = f"there is no class {class_name!r}{suggest(class_name, classes)}"
        raise Unprocessable(message, errors=[SpecProblem("", "unknown_class", message)])
    return classes.index(class_name)
