"""Turns written boxes into pixels of the displayed image.

Cameras store a picture as the sensor saw it, with a note (EXIF) how to turn it. Annotation tools
show the turned picture, but some write coordinates of the stored one. The written size of the image
tells which it was, unless the picture is square or only upside down: then it was the turned one.
"""

from collections.abc import Sequence
from typing import Literal

from service.datasets.inspect.boxes.written import Corners
from service.datasets.inspect.images import ImageFacts

Frame = Literal["displayed", "stored"]
_LONG = 5
"""EXIF orientations from this one on exchange width and height."""


def displayed_size(facts: ImageFacts) -> tuple[int, int]:
    """Return (width, height) of the image as it is displayed."""
    stored = facts.width, facts.height
    return stored[::-1] if facts.orientation >= _LONG else stored


def choose_frame(
    size: tuple[int, int] | None, boxes: Sequence[Corners], facts: ImageFacts
) -> Frame | None:
    """Return which picture the coordinates of an image are in; None if it is neither.

    Args:
        size: Size according to the annotations.
        boxes: Corners in pixels.
        facts: The image.
    """
    shown, stored = displayed_size(facts), (facts.width, facts.height)
    if size is None or size == shown:
        return "displayed"
    if size != stored:
        return None
    # Some exports write the size of the stored picture next to boxes of the displayed one.
    fits_only_shown = not _fit(boxes, stored) and _fit(boxes, shown)
    return "displayed" if fits_only_shown else "stored"


def to_displayed(xyxy: Corners, facts: ImageFacts) -> Corners:
    """Return corners of the stored picture in the displayed one, for orientations from 5 to 8."""
    left, top, right, bottom = xyxy
    width, height = facts.width, facts.height
    return {
        5: (top, left, bottom, right),
        6: (height - bottom, left, height - top, right),
        7: (height - bottom, width - right, height - top, width - left),
        8: (top, width - right, bottom, width - left),
    }[facts.orientation]


def _fit(boxes: Sequence[Corners], size: tuple[int, int]) -> bool:
    return all(right <= size[0] + 1 and bottom <= size[1] + 1 for _, _, right, bottom in boxes)
