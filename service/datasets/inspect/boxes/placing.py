"""Places written boxes on the displayed picture, and finds those that do not fit."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from redkiln.annotations import Box
from service.datasets.inspect.boxes.frame import choose_frame, displayed_size, to_displayed
from service.datasets.inspect.boxes.written import (
    Corners,
    Faults,
    WrittenBox,
    WrittenImage,
)
from service.datasets.inspect.images import ImageFacts

_DIGITS = 3
"""Digits after the point of a coordinate: a thousandth of a pixel."""
_ROUNDING = 1.0
"""Pixels that a box may reach outside before it is mentioned, because tools round."""


@dataclass
class Placing:
    """Places images one by one, and counts what happened to their boxes.

    Attributes:
        labels: Label by name of the class.
        faults: Boxes that cannot be used.
        cut: Places of boxes that reached beyond their image.
        num_repeated: Boxes that were listed twice.
        num_turned: Images whose boxes were written for the stored picture.
    """

    labels: Mapping[str, int]
    faults: Faults
    is_relative: bool
    cut: list[str] = field(default_factory=list)
    num_repeated: int = 0
    num_turned: int = 0

    def place(self, image: WrittenImage, facts: ImageFacts) -> list[Box] | str:
        """Return the boxes of an image, or why its annotations do not fit it."""
        width, height = displayed_size(facts)
        written = image.boxes
        if self.is_relative:
            written = [box._replace(xyxy=_scale(box.xyxy, width, height)) for box in written]
        frame = choose_frame(image.size, [box.xyxy for box in written], facts)
        if frame is None:
            size = "{} x {}".format(*image.size or ())
            return (
                f"its annotations are for {size} pixels, but it has {width} x {height}; "
                "use the image that was annotated, or scale the boxes"
            )
        is_turned = frame == "stored" and facts.orientation != 1
        self.num_turned += is_turned
        return self._place(image, written, facts, is_turned=is_turned)

    def _place(
        self,
        image: WrittenImage,  # noqa: ARG002 - a subclass needs it
        written: Sequence[WrittenBox],
        facts: ImageFacts,
        *,
        is_turned: bool,
    ) -> list[Box]:
        """Return the boxes of an image from those in pixels of the picture that was annotated.

        Args:
            image: The image.
            written: Its boxes in pixels.
            facts: The same image.
            is_turned: Whether that picture is the stored one, which EXIF turns.
        """
        if is_turned:
            written = [box._replace(xyxy=to_displayed(box.xyxy, facts)) for box in written]
        return self._keep(written, *displayed_size(facts))

    def _keep(self, written: Sequence[WrittenBox], width: int, height: int) -> list[Box]:
        kept: dict[tuple[object, ...], Box] = {}
        for one in written:
            if fault := _find_fault(one.xyxy, width, height):
                self.faults.add(*fault, one.place)
                continue
            box = Box(
                label=self.labels[one.class_name],
                xyxy=_cut(one.xyxy, width, height),
                crowd=one.crowd,
            )
            key = (box.label, box.xyxy, box.crowd)
            self.num_repeated += key in kept
            kept.setdefault(key, box)
            if _reaches_out(one.xyxy, width, height):
                self.cut.append(one.place)
        return list(kept.values())


def _find_fault(xyxy: Corners, width: int, height: int) -> tuple[str, str] | None:
    """Return code and message of what is wrong with a box; None if a part can be used."""
    if not all(map(math.isfinite, xyxy)):
        return "not_finite", "has a coordinate that is not a finite number"
    left, top, right, bottom = xyxy
    if right <= left or bottom <= top:
        return "empty_box", f"has no area: {right - left:g} x {bottom - top:g} pixels"
    cut_left, cut_top, cut_right, cut_bottom = _cut(xyxy, width, height)
    if cut_right <= cut_left or cut_bottom <= cut_top:
        corners = f"({left:g}, {top:g}) to ({right:g}, {bottom:g})"
        return "outside", f"reaches from {corners}, outside its image of {width} x {height} pixels"
    return None


def _scale(xyxy: Corners, width: int, height: int) -> Corners:
    left, top, right, bottom = xyxy
    return left * width, top * height, right * width, bottom * height


def _cut(xyxy: Corners, width: int, height: int) -> Corners:
    left, top, right, bottom = xyxy
    return (
        round(min(max(left, 0.0), width), _DIGITS),
        round(min(max(top, 0.0), height), _DIGITS),
        round(min(max(right, 0.0), width), _DIGITS),
        round(min(max(bottom, 0.0), height), _DIGITS),
    )


def _reaches_out(xyxy: Corners, width: int, height: int) -> bool:
    left, top, right, bottom = xyxy
    return max(-left, -top, right - width, bottom - height) > _ROUNDING
