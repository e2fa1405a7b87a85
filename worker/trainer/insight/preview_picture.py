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
from worker.trainer.insight.shown import Shown

Fonts = Sequence[ImageFont.FreeTypeFont]
COLUMNS = 6
SIDE = 120
"""Side of a tile's image in pixels; smaller images are enlarged without smoothing."""
MARGIN = 8
LINE = 15
RIGHT, WRONG, NEUTRAL = (22, 120, 60), (190, 30, 45), (90, 90, 90)
INK, PAPER = (30, 30, 30), (255, 255, 255)
FONT_SIZE = 12


def draw_grid(shown: Sequence[Shown]) -> bytes:
    """Draw a PNG of the samples' images in order."""
    columns = min(COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    width, height = SIDE + 2 * MARGIN, SIDE + 2 * MARGIN + 2 * LINE
    sheet = Image.new("RGB", (columns * width, rows * height), PAPER)
    draw = ImageDraw.Draw(sheet)
    texts = [text for sample in shown for text in (sample.predicted, sample.truth)]
    fonts = load_fonts([*texts, "is 100% .."], size=FONT_SIZE)
    for number, sample in enumerate(shown):
        left, top = number % columns * width + MARGIN, number // columns * height + MARGIN
        _draw_tile(sheet, draw, fonts, sample, left=left, top=top)
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG", compress_level=3)
    return buffer.getvalue()


def _draw_tile(
    sheet: Image.Image,
    draw: ImageDraw.ImageDraw,
    fonts: Fonts,
    sample: Shown,
    *,
    left: int,
    top: int,
) -> None:
    assert sample.image is not None
    colour = {True: RIGHT, False: WRONG, None: NEUTRAL}[sample.is_right]
    draw.rectangle((left - 3, top - 3, left + SIDE + 2, top + SIDE + 2), fill=colour)
    sheet.paste(_fit(sample.image), (left, top))
    if sample.is_right is not None:
        _draw_mark(draw, sample.is_right, colour, right=left + SIDE, top=top)
    confidence = "" if sample.confidence is None else f" {sample.confidence:.0%}"
    first = _shorten(draw, fonts, sample.predicted, confidence)
    below = top + SIDE + 4
    _draw_text(draw, (left, below), first, fonts, colour)
    if sample.is_right is not True:
        truth = _shorten(draw, fonts, f"is {sample.truth}", "")
        _draw_text(draw, (left, below + LINE), truth, fonts, INK)


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
    draw: ImageDraw.ImageDraw, is_right: bool, colour: tuple[int, int, int], *, right: int, top: int
) -> None:
    """Draw a tick or a cross on a disc in the image's upper right corner."""
    x, y = right - 20, top + 2
    draw.ellipse((x, y, x + 17, y + 17), fill=colour, outline=PAPER)
    if is_right:
        draw.line((x + 4, y + 9, x + 7, y + 12, x + 13, y + 5), fill=PAPER, width=2)
    else:
        draw.line((x + 5, y + 5, x + 12, y + 12), fill=PAPER, width=2)
        draw.line((x + 12, y + 5, x + 5, y + 12), fill=PAPER, width=2)


def _shorten(
    draw: ImageDraw.ImageDraw,
    fonts: Fonts,
    text: str,
    end: str,
) -> str:
    """Return as much of a text as fits a tile's width, followed by its end."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    whole = text
    while text and _measure(draw, _joined(text, whole, end), fonts) > SIDE:
        text = text[:-1]
    return _joined(text, whole, end)


def _draw_text(
    draw: ImageDraw.ImageDraw,
    place: tuple[int, int],
    text: str,
    fonts: Fonts,
    colour: tuple[int, int, int],
) -> None:
    x, base = float(place[0]), place[1] + FONT_SIZE
    for part, font in split_by_font(text, fonts):
        draw.text((x, base), part, fill=colour, font=font, anchor="ls")
        x += draw.textlength(part, font=font)


def _measure(draw: ImageDraw.ImageDraw, text: str, fonts: Fonts) -> float:
    return sum(draw.textlength(part, font=font) for part, font in split_by_font(text, fonts))


def _joined(text: str, whole: str, end: str) -> str:
    return (text if text == whole else f"{text}..") + end
