"""Draws boxes into a copy of an image."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

from redkiln.annotations import class_colour
from redkiln.errors import ModelError
from redkiln.predict.boxes.labels import Box, place_labels
from redkiln.predict.instances.drawing import tint
from redkiln.predict.pixels import to_upright

if TYPE_CHECKING:
    from redkiln.predict.model import FoundBox

LINE = 0.004
"""Width of a line, as a share of the image's longer side."""
TEXT = 0.025
"""Height of the text likewise."""
EDGE = 1
"""Pixels of a label around its text."""
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def draw_found(source: Path, boxes: Sequence["FoundBox"], target: Path, classes: list[str]) -> None:
    """Write a PNG of an image with boxes, their classes, their scores, and masks if there are some.

    Args:
        source: The image.
        boxes: Boxes in pixels of the upright image.
        target: File to write.
        classes: All classes, which choose the colours.
    """
    with Image.open(source) as opened:
        image = to_upright(opened, "RGB")
    for one in reversed(boxes):
        if one.mask is not None:
            tint(image, one.mask, classes.index(one.class_name))
    draw, side = ImageDraw.Draw(image), max(image.size)
    font = ImageFont.load_default(max(10, round(TEXT * side)))
    colours = [class_colour(classes.index(one.class_name)) for one in boxes]
    for one, colour in reversed(list(zip(boxes, colours, strict=True))):  # the best one on top
        draw.rectangle(one.box, outline=colour, width=max(1, round(LINE * side)))
    texts = [f"{one.class_name} {one.score:.0%}" for one in boxes]
    _draw_labels(draw, texts, colours, [one.box for one in boxes], font=font, picture=image.size)
    image.save(target)


def _draw_labels(
    draw: ImageDraw.ImageDraw,
    texts: Sequence[str],
    colours: Sequence[tuple[int, int, int]],
    boxes: Sequence[Box],
    *,
    font: Font,
    picture: tuple[int, int],
) -> None:
    inks = [draw.textbbox((0, 0), text, font=font) for text in texts]
    sizes = [
        (right - left + 2 * EDGE, bottom - top + 2 * EDGE) for left, top, right, bottom in inks
    ]
    places = place_labels(boxes, sizes, picture)
    labels = list(zip(texts, colours, inks, sizes, places, strict=True))
    for text, colour, (left, top, *_), (width, height), (x, y) in reversed(labels):
        # The last pixels of a rectangle are inside of it.
        draw.rectangle((x, y, x + width - 1, y + height - 1), fill=colour)
        draw.text((x + EDGE - left, y + EDGE - top), text, fill="black", font=font)


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
