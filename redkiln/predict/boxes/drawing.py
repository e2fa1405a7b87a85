"""Draws boxes into a copy of an image."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont, ImageOps

from redkiln.annotations import class_colour
from redkiln.errors import ModelError
from redkiln.predict.instances.drawing import tint

if TYPE_CHECKING:
    from redkiln.predict.model import FoundBox

LINE = 0.004
"""Width of a line, as a share of the image's longer side."""
TEXT = 0.025
"""Height of the text likewise."""


def draw_found(source: Path, boxes: Sequence["FoundBox"], target: Path, classes: list[str]) -> None:
    """Write a PNG of an image with boxes, their classes, their scores, and masks if there are some.

    Args:
        source: The image.
        boxes: Boxes in pixels of the upright image.
        target: File to write.
        classes: All classes, which choose the colours.
    """
    with Image.open(source) as opened:
        image = ImageOps.exif_transpose(opened).convert("RGB")
    for one in reversed(boxes):
        if one.mask is not None:
            tint(image, one.mask, classes.index(one.class_name))
    draw, side = ImageDraw.Draw(image), max(image.size)
    font = ImageFont.load_default(max(10, round(TEXT * side)))
    for one in reversed(boxes):  # the best one on top
        colour = class_colour(classes.index(one.class_name))
        draw.rectangle(one.box, outline=colour, width=max(1, round(LINE * side)))
        text, corner = f"{one.class_name} {one.score:.0%}", (one.box[0], one.box[1])
        *_, bottom = draw.textbbox(corner, text, font=font)
        if one.box[1] >= bottom - one.box[1]:  # above the box, where it hides nothing of it
            corner = (one.box[0], one.box[1] - (bottom - one.box[1]))
        draw.rectangle(draw.textbbox(corner, text, font=font), fill=colour)
        draw.text(corner, text, fill="black", font=font)
    image.save(target)


def name_drawn(folder: Path, name: str, taken: set[str]) -> Path:
    """Return the file for the drawing of an input, with a number if the name is taken.

    Raises:
        ModelError: The input is not a file.
    """
    if not Path(name).is_file():
        raise ModelError(f"--draw needs images in files; {name} is not one.")
    stem, number = Path(name).stem, 1
    while (file := f"{stem}{'' if number == 1 else f'-{number}'}.png") in taken:
        number += 1
    taken.add(file)
    return folder / file
