"""A registered data set as the API shows it: its status, content and problems."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, TypedDict

from pydantic import BaseModel, Field

from redkiln.advice.wording import as_arguments


class DatasetStatus(StrEnum):
    """Whether a data set can be trained on."""

    VALIDATING = "validating"
    READY = "ready"
    INVALID = "invalid"


TEST_COPIES = ("copies_across_splits", "near_copies_across_splits")
"""Codes of the warnings about test samples that are copies of training samples."""
COPIES_IN_TEST = ("copies_in_test", "near_copies_in_test")
"""Codes of the warnings about test samples that are copies of other test samples."""
LEAKING_COLUMNS = "leaking_columns"
"""Code of the warning about columns that predict the target by themselves."""

UNUSED_COLUMNS = "columns that are not used: "
"""How the message begins that names columns that the inspection left out."""


class DatasetProblem(BaseModel):
    """A file or row that was skipped, a warning, or what makes the data set invalid.

    Attributes:
        pairs: For a warning about copies, the first 100 samples, each with the sample that it is a
            copy of.
        count: For a warning about copies in the test split, of training samples or of each other,
            the number of such samples.
    """

    code: str
    message: str
    path: str | None = None
    count: int | None = None
    pairs: list[tuple[str, str]] = Field(default_factory=list)

    def __repr__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        return f"<DatasetProblem {self.code}: {place}{as_arguments(self.message)}>"

    __str__ = __repr__


class CopyCounts(TypedDict):
    """Test samples that are copies of training samples, and of other test samples."""

    num_copies: int
    num_repeated: int


def count_copies(warnings: Iterable[Mapping[str, Any]]) -> CopyCounts:
    """Return how many copies in the test split warnings count; those of old versions count none."""
    counts: Counter[str] = Counter()
    for warning in warnings:
        counts[warning["code"]] += warning.get("count") or 0
    return CopyCounts(
        num_copies=sum(counts[code] for code in TEST_COPIES),
        num_repeated=sum(counts[code] for code in COPIES_IN_TEST),
    )


class ColumnView(BaseModel):
    """A column of a table, as it was read.

    Attributes:
        type: Use of the column; for `ignored` columns `note` says why.
        num_missing: Rows without a value.
        num_categories: Number of different values of a categorical column or of a class target.
        categories: The first of these values; for a feature the most frequent first.
        minimum: Smallest value over the training rows, for a numeric column or target.
        minimum_at: Place of a target's smallest value in the files, such as `line 7`.
        maximum: Largest value of the same.
        mean: Mean of the same.
    """

    name: str
    type: Literal["numeric", "categorical", "text", "ignored", "target", "split"]
    num_missing: int = 0
    num_categories: int | None = None
    categories: list[str] = Field(default_factory=list)
    minimum: float | None = None
    minimum_at: str | None = None
    maximum: float | None = None
    mean: float | None = None
    note: str | None = None


class ObjectCounts(BaseModel):
    """The boxes of a data set for object detection.

    Attributes:
        annotation_format: How the annotations were written.
        boxes: Boxes by split and class; crowds do not count.
        sizes: Boxes of all splits by class and size: `small` is below 32 x 32 pixels, `large` from
            96 x 96 on, as in COCO.
        num_crowds: Boxes around groups of objects, which training and scoring ignore.
        images_without: Images without objects by split.
        most_in_image: Boxes of the image that has the most.
    """

    annotation_format: str
    boxes: dict[str, dict[str, int]]
    sizes: dict[str, dict[str, int]]
    num_crowds: int = 0
    images_without: dict[str, int] = Field(default_factory=dict)
    most_in_image: int = 0


class MaskCounts(BaseModel):
    """The masks of a data set for semantic segmentation.

    Attributes:
        mask_format: How the masks were written.
        pixels: Pixels by split and class, in masks whose longer side is at most 1,280 pixels.
        images: Images with pixels of a class, by split and class.
        ignored: Pixels by split that are neither learned nor scored.
    """

    mask_format: str
    pixels: dict[str, dict[str, int]] = Field(default_factory=dict)
    images: dict[str, dict[str, int]] = Field(default_factory=dict)
    ignored: dict[str, int] = Field(default_factory=dict)


class DatasetView(BaseModel):
    """A registered data set.

    Attributes:
        kind: `archive` was uploaded, `folder` is below a data root of the service, `builtin` is
            created by the worker.
        project: Project of the key that registered it; empty if it is built in.
        classes: Class names; empty for a regression.
        counts: Samples by split and class; for a regression, with several labels a sample, and with
            boxes or masks, the class is `rows` or `images`.
        label_counts: Samples with each label by split, if a sample can have several labels; empty
            if each sample has one class.
        objects: Boxes by class and size, of a set for object detection.
        masks: Pixels and images by class, of a set for semantic segmentation.
        columns: Columns of a table, in the file's order.
        target: Name of a table's target column.
        options: Options that the owner gave for a table when it was registered.
        missing: Words that were read as missing values in an uploaded table, in addition to
            empty fields.
        notes: How the data were read, such as the chosen target.
        warnings: Doubts about the quality of the data, such as copies of training samples in the
            test split; they do not keep a job from training.
        num_skipped: Files or rows that were left out; `skipped` lists the first ones.
        errors: Why the data set is invalid, place by place.
    """

    id: str
    name: str
    status: DatasetStatus
    kind: Literal["archive", "folder", "builtin"]
    project: str = "default"
    task: str | None = None
    sha256: str | None = None
    size_bytes: int | None = None
    path: str | None = None
    classes: list[str] = Field(default_factory=list)
    counts: dict[str, dict[str, int]] = Field(default_factory=dict)
    label_counts: dict[str, dict[str, int]] = Field(default_factory=dict)
    image_sizes: dict[str, int] = Field(default_factory=dict)
    image_modes: dict[str, int] = Field(default_factory=dict)
    objects: ObjectCounts | None = None
    masks: MaskCounts | None = None
    columns: list[ColumnView] = Field(default_factory=list)
    target: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    missing: list[str] | None = None
    notes: list[str] = Field(default_factory=list)
    warnings: list[DatasetProblem] = Field(default_factory=list)
    num_skipped: int = 0
    skipped: list[DatasetProblem] = Field(default_factory=list)
    errors: list[DatasetProblem] = Field(default_factory=list)
    created_at: datetime | None = None

    @property
    def mean_labels(self) -> float | None:
        """Mean labels of a sample; None if each sample has one class."""
        num = sum(sum(of_split.values()) for of_split in self.counts.values())
        labels = sum(sum(of_split.values()) for of_split in self.label_counts.values())
        return labels / num if self.label_counts and num else None

    def describe_warnings(self) -> list[str]:
        """Return the text of each warning, with arguments and calls of the Python client."""
        return [self._in_python(one.message) for one in self.warnings]

    def describe_notes(self) -> list[str]:
        """Return the notes, with arguments and calls of the Python client."""
        return [self._in_python(note) for note in self.notes]

    def _in_python(self, advice: str) -> str:
        return as_arguments(advice).replace("dataset(NAME)", f'dataset("{self.name}")')

    def __repr__(self) -> str:
        num = len(self.warnings)
        counted = "1 warning" if num == 1 else f"{num} warnings"
        warned = f", {counted}: see .warnings" if num else ""
        return f"<DatasetView {self.name} ({self.id}): {self.status}{warned}>"

    __str__ = __repr__


class UploadView(BaseModel):
    """An upload that has begun, or the data set if nothing needs to be sent.

    Attributes:
        id: Id of the upload; None if the service has the content already.
        part_bytes: Size of every part except the last.
        num_parts: Number of parts, which are counted from 0.
        received: Numbers of the parts that the service has.
        expires_at: Time at which the service forgets the upload, unless a part arrives before.
        dataset: The data set, if the service has the content already.
    """

    id: str | None = None
    sha256: str
    size_bytes: int
    part_bytes: int
    num_parts: int
    received: list[int] = []
    expires_at: datetime | None = None
    dataset: DatasetView | None = None
