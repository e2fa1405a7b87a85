"""Sample predictions as one picture: a grid of images with truth and prediction.

Right and wrong predictions differ in colour and in shape, for readers who cannot distinguish green
from red. Only Pillow is used: two dozen tiles take some 20 ms of one core, while importing
matplotlib takes half a second.
"""

import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from worker.fonts import load_fonts, split_by_font
from worker.trainer.insight.shortened import ELLIPSIS, wrap
from worker.trainer.insight.shown import Shown

Fonts = Sequence[ImageFont.FreeTypeFont]
Colour = tuple[int, int, int]
COLUMNS = 6
SIDE = 120
"""Side of a tile's image in pixels; smaller images are enlarged without smoothing."""
MARGIN = 8
LINE = 15
RIGHT, WRONG, NEUTRAL = (22, 120, 60), (190, 30, 45), (90, 90, 90)
INK, PAPER = (30, 30, 30), (255, 255, 255)
_COLOURS = {True: RIGHT, False: WRONG, None: NEUTRAL}
FONT_SIZE = 12
MOST_LINES = 3
"""Lines of an answer or of a truth below a tile; longer names are shortened in their middle."""


def draw_grid(shown: Sequence[Shown]) -> bytes:
    """Draw a PNG of the samples' images in order."""
    columns = min(COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    texts = [text for sample in shown for text in (sample.predicted, sample.truth)]
    fonts = load_fonts([*texts, f"is 100% {ELLIPSIS}"], size=FONT_SIZE)
    captions = [_caption(sample, fonts) for sample in shown]
    num_lines = max(2, *map(len, captions))
    width, height = SIDE + 2 * MARGIN, SIDE + 2 * MARGIN + num_lines * LINE
    sheet = Image.new("RGB", (columns * width, rows * height), PAPER)
    draw = ImageDraw.Draw(sheet)
    for number, (sample, caption) in enumerate(zip(shown, captions, strict=True)):
        left, top = number % columns * width + MARGIN, number // columns * height + MARGIN
        _draw_tile(sheet, draw, sample, left=left, top=top)
        for line, (text, colour) in enumerate(caption):
            _draw_text(draw, (left, top + SIDE + 4 + line * LINE), text, fonts, colour)
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG", compress_level=3)
    return buffer.getvalue()


def _draw_tile(
    sheet: Image.Image,
    draw: ImageDraw.ImageDraw,
    sample: Shown,
    *,
    left: int,
    top: int,
) -> None:
    assert sample.image is not None
    colour = _COLOURS[sample.is_right]
    draw.rectangle((left - 3, top - 3, left + SIDE + 2, top + SIDE + 2), fill=colour)
    sheet.paste(_fit(sample.image), (left, top))
    if sample.is_right is not None:
        _draw_mark(draw, sample.is_right, colour, right=left + SIDE, top=top)


def _caption(sample: Shown, fonts: Fonts) -> list[tuple[str, Colour]]:
    """Return the lines below a tile with their colours: the answer, and the truth if it differs."""

    def fits(text: str) -> bool:
        return sum(font.getlength(part) for part, font in split_by_font(text, fonts)) <= SIDE

    def lines(text: str, end: str = "") -> list[str]:
        shown = "".join(c if c.isprintable() else "?" for c in text)
        return wrap(shown, end, fits=fits, most_lines=MOST_LINES)

    confidence = "" if sample.confidence is None else f" {sample.confidence:.0%}"
    answer = [(line, _COLOURS[sample.is_right]) for line in lines(sample.predicted, confidence)]
    if sample.is_right is True:
        return answer
    return answer + [(line, INK) for line in lines(f"is {sample.truth}")]


def _fit(pixels: NDArray[np.uint8]) -> Image.Image:
    """Fit an image into a square of the tile's side without changing its proportions."""
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).convert("RGB")
    scale = SIDE / max(picture.size)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    how = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.BILINEAR
    tile = Image.new("RGB", (SIDE, SIDE), PAPER)
    tile.paste(picture.resize(size, how), ((SIDE - size[0]) // 2, (SIDE - size[1]) // 2))
    return tile


def _draw_mark(
    draw: ImageDraw.ImageDraw, is_right: bool, colour: Colour, *, right: int, top: int
) -> None:
    """Draw a tick or a cross on a disc in the image's upper right corner."""
    x, y = right - 20, top + 2
    draw.ellipse((x, y, x + 17, y + 17), fill=colour, outline=PAPER)
    if is_right:
        draw.line((x + 4, y + 9, x + 7, y + 12, x + 13, y + 5), fill=PAPER, width=2)
    else:
        draw.line((x + 5, y + 5, x + 12, y + 12), fill=PAPER, width=2)
        draw.line((x + 12, y + 5, x + 5, y + 12), fill=PAPER, width=2)


def _draw_text(
    draw: ImageDraw.ImageDraw,
    place: tuple[int, int],
    text: str,
    fonts: Fonts,
    colour: Colour,
) -> None:
    x, base = float(place[0]), place[1] + FONT_SIZE
    for part, font in split_by_font(text, fonts):
        draw.text((x, base), part, fill=colour, font=font, anchor="ls")
        x += draw.textlength(part, font=font)
