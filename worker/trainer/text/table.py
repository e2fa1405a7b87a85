"""A validated table of texts on this host: its labels and splits. Texts are read when needed.

Shapes: N rows, those of the training split first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from redkiln.failure import FailureCode
from redkiln.tables import TableIndex
from worker.jobdir import LocalDataset
from worker.process.failed import TrainingFailed
from worker.trainer.tables.table import Split, load_table
from worker.trainer.text.tokens import iter_texts


@dataclass(frozen=True)
class TextTable:
    """Texts with one label each, or with several.

    Attributes:
        column: Name of the column of texts.
        labels: (N,) class of each row; (N, C) with 1 for each label of a row, else 0, if it can
            have several.
        rows: Rows of each split.
    """

    path: Path
    fingerprint: str
    index: TableIndex
    column: str
    labels: NDArray[np.int64] | NDArray[np.uint8]
    rows: dict[Split, NDArray[np.int64]]

    @property
    def has_labels(self) -> bool:
        """Whether a text can have several labels."""
        return self.labels.ndim == 2

    def iter_blocks(self) -> Iterator[list[str]]:
        """Yield all texts in blocks."""
        return iter_texts(self.path, self.column)

    def iter_some(self, rows: NDArray[np.int64]) -> Iterator[str]:
        """Yield the texts of some rows, in the file's order."""
        wanted = np.zeros(len(self.labels), dtype=bool)
        wanted[rows] = True
        start = 0
        for block in self.iter_blocks():
            for place in np.flatnonzero(wanted[start : start + len(block)]):
                yield block[place]
            start += len(block)


def open_text_table(dataset: LocalDataset, *, validation_fraction: float) -> TextTable:
    """Read a table except for its texts.

    Raises:
        TrainingFailed: the table is missing or cannot be used to train a text classifier.
    """
    if dataset.index_path is None:
        message = f"data set {dataset.name} is not a table; text-classification needs one"
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/dataset")
    path = Path(dataset.index_path)
    table = load_table(path)
    index = table.index
    texts = [column.name for column in index.columns if column.type == "text"]
    if len(texts) != 1 or len(index.classes) < 2:
        message = (
            f"data set {dataset.name} has {len(texts)} text columns and {len(index.classes)} "
            "classes; text-classification needs exactly one text column and at least two classes"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/dataset")
    rows = table.split(validation_fraction=validation_fraction)
    if not len(rows["train"]) or not len(rows["test"]):
        message = (
            f"data set {dataset.name} has {len(rows['train'])} training texts and "
            f"{len(rows['test'])} test texts; training needs both"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/dataset")
    return TextTable(
        path=path,
        fingerprint=dataset.fingerprint,
        index=index,
        column=texts[0],
        labels=table.targets.astype(np.int64) if table.labels is None else table.labels,
        rows=rows,
    )
