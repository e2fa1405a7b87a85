"""A COCO file, as the service hands it out with test images, and as a model is scored with it."""

from typing import Annotated, Any

from pydantic import BaseModel, Field, FiniteFloat, NonNegativeInt

NAME = "_annotations.coco.json"
"""Name of the file next to its images; a data set with it is recognised as COCO."""


class CocoRuns(BaseModel):
    """Pixels of an object as runs, down the columns: outside, inside, outside, ...

    Attributes:
        counts: Lengths of the runs, or COCO's text for them.
        size: (height, width) of the image.
    """

    counts: list[NonNegativeInt] | str
    size: tuple[int, int]


Polygon = Annotated[list[FiniteFloat], Field(min_length=6)]
"""Outline as x, y, x, y, ... in pixels."""
Region = Annotated[list[Polygon], Field(min_length=1)] | CocoRuns
"""Pixels of an object: outlines that together are one object, or runs."""


class CocoImage(BaseModel):
    """An image of the file.

    Attributes:
        file_name: Path below the folder of the file.
        width: Width of the displayed image in pixels; None if the file does not say.
        height: Height of the displayed image in pixels.
    """

    id: int | str
    file_name: str
    width: int | None = None
    height: int | None = None


class CocoCategory(BaseModel):
    """A class."""

    id: int | str
    name: str


class CocoObject(BaseModel):
    """An object of an image.

    Attributes:
        bbox: Left, top, width and height in pixels of the displayed image.
        area: Area of the box, or of the mask, in square pixels; other programs need it.
        segmentation: Pixels of the object, a `Region`; None if the file has boxes only. It is not
            checked here, because files with boxes have all kinds of values in it.
        iscrowd: 1 if the box covers a group of objects, which neither counts nor harms.
    """

    id: int | str | None = None
    image_id: int | str
    category_id: int | str
    bbox: tuple[float, float, float, float]
    area: float | None = None
    segmentation: Any = None
    iscrowd: int = 0


class CocoFile(BaseModel):
    """The whole file."""

    images: list[CocoImage]
    categories: list[CocoCategory]
    annotations: list[CocoObject]
