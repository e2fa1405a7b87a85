"""Samples of a data set, and predictions of samples, as the API shows them."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from redkiln.views.evaluation import Tiles
from redkiln.views.page import Page


class SampleBox(BaseModel):
    """One object of an image.

    Attributes:
        label: Index of the class in the data set's `classes`, which decides its colour.
        xyxy: (left, top, right, bottom) in pixels of the displayed image.
        crowd: Whether it covers a group of objects, which training and scoring ignore.
    """

    label: int
    class_name: str
    xyxy: tuple[float, float, float, float]
    crowd: bool = False


class DatasetSample(BaseModel):
    """One image of a data set.

    Attributes:
        id: Split and position in it, such as `test-12`; mistakes of a job have the same position.
        class_name: Its class; its classes, or `no objects`, if it has several labels or boxes.
        path: Name in the archive, or path below the folder.
        row: Row in a file of several images; None for an image file.
        tile: Number of its tile in the page's picture, row by row from 0; None without a picture.
        width: Width of the displayed image in pixels; None for a classification.
        height: Height of the displayed image in pixels.
        boxes: Objects, which the picture shows; None for a classification.
    """

    id: str
    split: Literal["train", "test"]
    class_name: str
    path: str
    row: int | None = None
    tile: int | None = None
    width: int | None = None
    height: int | None = None
    boxes: list[SampleBox] | None = None


class SamplePage(Page[DatasetSample]):
    """A page of samples, and the picture of its images."""

    tiles: Tiles | None = None


class DatasetRow(BaseModel):
    """One row of a table, or one text.

    Attributes:
        id: Split and position in it, such as `test-12`; mistakes of a job have the same position.
        target: Its class or value.
        cells: Values of the page's columns as text, shortened; None where missing.
    """

    id: str
    split: Literal["train", "test"]
    target: str
    cells: list[str | None]


class RowPage(Page[DatasetRow]):
    """A page of rows.

    Attributes:
        columns: Names of the cells' columns, at most 40.
        num_columns: Number of columns of the table.
    """

    columns: list[str]
    num_columns: int


class PreviewView(BaseModel):
    """Sample predictions of a running job at one step.

    Attributes:
        media_type: `image/png`, or `text/markdown` for texts and tables.
        url: Address of the picture or table.
    """

    step: int
    media_type: str
    made_at: datetime
    url: str
