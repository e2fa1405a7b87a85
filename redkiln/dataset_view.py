"""A registered data set as everyone sees it: its status, what is in it and what is wrong."""

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, Field


class DatasetStatus(StrEnum):
    """Whether a data set can be trained on."""

    VALIDATING = "validating"
    READY = "ready"
    INVALID = "invalid"


class DatasetProblem(BaseModel):
    """One file or row that was skipped or that makes the data set invalid."""

    code: str
    message: str
    path: str | None = None


class ColumnView(BaseModel):
    """A column of a table, as it was read.

    Attributes:
        type: what it is used as; `ignored` ones are not, and `note` says why.
        num_missing: rows without a value.
        num_categories: values that a categorical column, or a target of classes, has.
        categories: the first of these; of a feature the most frequent first.
        minimum: smallest number of the training rows, of a numeric column or target.
        maximum: largest of the same.
        mean: of the same.
    """

    name: str
    type: Literal["numeric", "categorical", "text", "ignored", "target", "split"]
    num_missing: int = 0
    num_categories: int | None = None
    categories: list[str] = Field(default_factory=list)
    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None
    note: str | None = None


class DatasetView(BaseModel):
    """A registered data set.

    Attributes:
        kind: `archive` was uploaded, `folder` lies under a data root, `builtin` is made on the
            worker.
        classes: empty where the task is a regression.
        counts: samples by split and class; those of a regression as `rows`.
        columns: of a table, in the file's order.
        target: name of a table's target column.
        options: what its owner said about a table when it was registered.
        missing: of a table that was sent, the words that were read as no value, beside what is
            empty.
        num_skipped: files or rows that were left out; the first ones are in `skipped`.
        errors: why it is invalid, place by place.
    """

    id: str
    name: str
    status: DatasetStatus
    kind: Literal["archive", "folder", "builtin"]
    task: str | None = None
    sha256: str | None = None
    size_bytes: int | None = None
    path: str | None = None
    classes: list[str] = Field(default_factory=list)
    counts: dict[str, dict[str, int]] = Field(default_factory=dict)
    image_sizes: dict[str, int] = Field(default_factory=dict)
    image_modes: dict[str, int] = Field(default_factory=dict)
    columns: list[ColumnView] = Field(default_factory=list)
    target: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    missing: list[str] | None = None
    notes: list[str] = Field(default_factory=list)
    num_skipped: int = 0
    skipped: list[DatasetProblem] = Field(default_factory=list)
    errors: list[DatasetProblem] = Field(default_factory=list)
    created_at: datetime | None = None
