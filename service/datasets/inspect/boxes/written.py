"""Annotations as a format writes them, before they are compared with the images."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from redkiln.annotations import AnnotationFormat
from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.layout import Split
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.report import MAX_LISTED, problem, refuse

Corners = tuple[float, float, float, float]
"""(left, top, right, bottom)."""


Polygons = tuple[tuple[float, ...], ...]
"""Outlines that together are one object, each as x, y, x, y, ... in pixels."""


class Runs(NamedTuple):
    """Pixels of one object as lengths of runs, down the columns: outside, inside, outside, ...

    Attributes:
        counts: The lengths, or COCO's text for them.
        size: (height, width) of the image.
    """

    counts: tuple[int, ...] | str
    size: tuple[int, int]


class WrittenBox(NamedTuple):
    """One object.

    Attributes:
        xyxy: Corners in pixels, or in fractions of the image if `Written.is_relative`.
        place: File with line or JSON pointer, for messages.
        region: Its pixels, if regions are read.
    """

    class_name: str
    xyxy: Corners
    place: str
    crowd: bool = False
    region: Polygons | Runs | None = None


@dataclass(slots=True)
class WrittenImage:
    """One image with its objects.

    Attributes:
        position: Position of the image's file in the list of files.
        place: File with line or JSON pointer, for messages about the image.
        split: Split that the data set names for it, if any.
        size: (width, height) in pixels according to the annotations; None if they do not have it.
    """

    position: int
    place: str
    split: Split | None = None
    size: tuple[int, int] | None = None
    boxes: list[WrittenBox] = field(default_factory=list)


@dataclass
class Faults:
    """Things that cannot be used: all are counted, the first ones are listed."""

    num: int = 0
    listed: list[DatasetProblem] = field(default_factory=list)

    def add(self, code: str, message: str, place: str) -> None:
        """Add one."""
        self.num += 1
        if len(self.listed) < MAX_LISTED:
            self.listed.append(problem(code, message, place))


@dataclass
class Written:
    """All annotations of a data set.

    Attributes:
        classes: Names of the classes by label.
        is_relative: Whether coordinates are fractions of the image's size.
        bad_images: Images that cannot be used, and annotations whose image cannot be found.
        bad_boxes: Objects that cannot be used.
    """

    format: AnnotationFormat
    limits: Limits
    classes: list[str] = field(default_factory=list)
    images: list[WrittenImage] = field(default_factory=list)
    is_relative: bool = False
    bad_images: Faults = field(default_factory=Faults)
    bad_boxes: Faults = field(default_factory=Faults)
    notes: list[str] = field(default_factory=list)
    num_boxes: int = 0

    def count_box(self) -> None:
        """Count an object, usable or not.

        Raises:
            Refused: There are too many.
        """
        self.num_boxes += 1
        if self.num_boxes > self.limits.max_boxes:
            message = f"there are more than {self.limits.max_boxes:,} boxes; split the data set"
            raise refuse("too_many_boxes", message)


def read_number(value: object) -> float | None:
    """Return a number of JSON as a float; None for anything else. It may be infinite or NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def read_size(width: object, height: object) -> tuple[int, int] | None:
    """Return an image's size as it is written; None if it is missing or not positive."""
    sides = read_number(width), read_number(height)
    if any(side is None or not math.isfinite(side) or side < 1 for side in sides):
        return None
    return round(sides[0] or 0), round(sides[1] or 0)
