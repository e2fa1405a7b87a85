"""The indexes of validated data sets with annotations: images with boxes, or with masks.

Coordinates are pixels of the displayed image: width and height apply its EXIF orientation, x grows
to the right and y downwards, and pixel (0, 0) covers the square from (0, 0) to (1, 1).
"""

import colorsys
from typing import Annotated, Literal

from pydantic import BaseModel, Field, TypeAdapter

from redkiln.datasets import DatasetIndex, ImageFile, ImageIndex

AnnotationFormat = Literal["coco", "yolo", "voc", "labelme"]
"""How the boxes of a data set are written."""
MaskFormat = Literal["coco", "labelme", "png"]
"""How the masks of a data set are written: as regions of COCO or LabelMe, or as indexed PNG."""
IGNORED = 255
"""Label of a pixel that is neither learned nor scored."""
MOST_MASK_CLASSES = 255
"""Classes that fit into a byte next to `IGNORED`."""
MASK_FOLDER = "masks"
"""Folder in which each image has a PNG of its name: the value of a pixel is its class."""
MASK_NAMES = "classes.txt"
"""File next to that folder with the names of the classes, one a line, from the value 0 on."""
MOST_MASK_SIDE = 1280
"""Longest side of a mask in an index, in pixels: that of the largest input of a model."""


_GOLDEN = 0.618034
"""Step between the hues of successive classes, which keeps any number of them apart."""


def class_colour(label: int) -> tuple[int, int, int]:
    """Return the colour (red, green, blue) in which boxes of a class are drawn everywhere."""
    red, green, blue = colorsys.hsv_to_rgb(label * _GOLDEN % 1, 0.85, 1)
    return round(255 * red), round(255 * green), round(255 * blue)


class ObjectMask(BaseModel):
    """The pixels of an object inside its box.

    Attributes:
        packed: 1 for each of its pixels, as `redkiln.predict.masks.coding` packs a mask.
        size: (width, height) of the mask: that of the box, or smaller in proportion.
    """

    packed: str
    size: tuple[int, int]


class Box(BaseModel):
    """One object of an image.

    Attributes:
        label: Index into `classes`.
        xyxy: (left, top, right, bottom) in pixels of the displayed image; it is inside the image,
            and right > left and bottom > top.
        crowd: Whether the box covers a group of objects that were not separated (COCO's `iscrowd`,
            VOC's `difficult`); training and scoring ignore it.
        mask: The object's pixels, in a set for instance segmentation; the box is then the smallest
            one around them, and its sides are whole pixels.
    """

    label: int
    xyxy: tuple[float, float, float, float]
    crowd: bool = False
    mask: ObjectMask | None = None


class AnnotatedImage(ImageFile):
    """One image of an index, with its objects.

    Attributes:
        width: Width of the displayed image in pixels.
        height: Height of the displayed image in pixels.
        label: The rarest class of the image's objects that enough images have, which decides the
            split; None without objects, and for an image that no other one is like. Crowds do not
            count.
        boxes: The objects, in the order of the annotations; an empty list is a valid background.
    """

    width: int
    height: int
    boxes: list[Box] = Field(default_factory=list)


class DetectionIndex(ImageIndex):
    """The images of a data set for object detection, or for instance segmentation.

    Attributes:
        task: With `instance-segmentation`, each box has a mask.
        image_size: (width, height) of most displayed images.
        annotation_format: How the data set's annotations were written.
    """

    format: Literal[1] = 1
    task: Literal["object-detection", "instance-segmentation"] = "object-detection"
    annotation_format: AnnotationFormat
    splits: dict[Literal["train", "test"], list[AnnotatedImage]]


class MaskedImage(ImageFile):
    """One image of an index, with the class of each of its pixels.

    Attributes:
        width: Width of the displayed image in pixels.
        height: Height of the displayed image in pixels.
        label: The rarest class of its pixels other than the first one that enough images have,
            which decides the split; None without such a class.
        labels: Classes of its pixels, in rising order.
        mask: The mask of the displayed image, as `redkiln.predict.masks.coding` packs it.
        mask_size: (width, height) of the mask: that of the image, or smaller in proportion.
    """

    width: int
    height: int
    labels: list[int]
    mask: str
    mask_size: tuple[int, int]


class SegmentationIndex(ImageIndex):
    """The images of a data set for semantic segmentation.

    Attributes:
        image_size: (width, height) of most displayed images.
        mask_format: How the data set's masks were written.
    """

    format: Literal[1] = 1
    task: Literal["semantic-segmentation"] = "semantic-segmentation"
    mask_format: MaskFormat
    splits: dict[Literal["train", "test"], list[MaskedImage]]


AnyImageIndex = DatasetIndex | DetectionIndex | SegmentationIndex
_IMAGE_INDEX: TypeAdapter[AnyImageIndex] = TypeAdapter(
    Annotated[AnyImageIndex, Field(discriminator="task")]
)


def parse_image_index(content: bytes) -> AnyImageIndex:
    """Return the index of a data set of images, of any task.

    Raises:
        ValidationError: A newer service wrote it, or it is damaged.
    """
    return _IMAGE_INDEX.validate_json(content)
