"""A COCO file, as the service hands it out with test images, and as a model is scored with it."""

from pydantic import BaseModel

NAME = "_annotations.coco.json"
"""Name of the file next to its images; a data set with it is recognised as COCO."""


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
        area: Area of the box in square pixels; other programs need it.
        iscrowd: 1 if the box covers a group of objects, which neither counts nor harms.
    """

    id: int | str | None = None
    image_id: int | str
    category_id: int | str
    bbox: tuple[float, float, float, float]
    area: float | None = None
    iscrowd: int = 0


class CocoFile(BaseModel):
    """The whole file."""

    images: list[CocoImage]
    categories: list[CocoCategory]
    annotations: list[CocoObject]
