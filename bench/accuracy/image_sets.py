"""Small sets of larger pictures that are drawn: what people try first with their own data.

Place, size, colour and direction differ from picture to picture and say nothing about the class.
"""

import io
import math
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

Points = list[tuple[float, float]]


def _blank(rng: np.random.Generator, side: int, *, light: tuple[int, int]) -> Image.Image:
    shade = rng.integers(*light, 3)
    noise = rng.normal(0, 6, (side, side, 3))
    return Image.fromarray(np.clip(shade + noise, 0, 255).astype(np.uint8))


def turn_and_place(
    rng: np.random.Generator,
    points: Points,
    side: int,
    *,
    turn: float,
    sizes: tuple[float, float],
    noise: float = 0.02,
) -> Points:
    """Turn, scale and shift points around the origin, with a little noise."""
    angle, scale = rng.uniform(-turn, turn), side * rng.uniform(*sizes)
    x, y = side * rng.uniform(0.42, 0.58, 2)
    cos, sin = math.cos(angle), math.sin(angle)
    jitter = rng.normal(0, noise, (len(points), 2))
    return [
        (x + scale * (a * cos - b * sin + dx), y + scale * (a * sin + b * cos + dy))
        for (a, b), (dx, dy) in zip(points, jitter, strict=True)
    ]


def draw_leaf(rng: np.random.Generator, label: int, side: int) -> Image.Image:
    """Draw a leaf of any green: 0 smooth and long, 1 with lobes, 2 with teeth."""
    image = _blank(rng, side, light=(120, 250))
    angles = np.linspace(0, 2 * math.pi, 72, endpoint=False)
    wide = rng.uniform(0.45, 0.65)
    radius = {
        0: np.ones(72),
        1: 1 + 0.28 * np.cos(rng.integers(5, 8) * angles),
        2: 1 + 0.10 * np.sign(np.sin(rng.integers(14, 19) * angles)),
    }[label]
    outline = [
        (float(r * math.cos(a)), float(r * wide * math.sin(a)))
        for r, a in zip(radius, angles, strict=True)
    ]
    placed = turn_and_place(
        rng, [*outline, (-1.3, 0.0), (0.9, 0.0)], side, turn=math.pi, sizes=(0.2, 0.34)
    )
    colour = tuple(int(v) for v in rng.integers((20, 70, 10), (120, 170, 80)))
    draw = ImageDraw.Draw(image)
    draw.polygon(placed[:-2], fill=colour)
    draw.line(placed[-2:], fill=tuple(v // 2 for v in colour), width=2)
    return image.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.2, 0.9))))


def draw_doodle(rng: np.random.Generator, label: int, side: int) -> Image.Image:
    """Draw with a pen: 0 a house, 1 a fish, 2 a tree."""
    image = _blank(rng, side, light=(200, 255))
    strokes: list[Points] = {0: _house, 1: _fish, 2: _tree}[label](rng)
    placed = turn_and_place(rng, [p for s in strokes for p in s], side, turn=0.3, sizes=(0.2, 0.32))
    colour, width = tuple(int(v) for v in rng.integers(0, 110, 3)), int(rng.integers(2, 5))
    draw = ImageDraw.Draw(image)
    for stroke in strokes:
        points, placed = placed[: len(stroke)], placed[len(stroke) :]
        draw.line(points, fill=colour, width=width, joint="curve")
    return image


def _house(rng: np.random.Generator) -> list[Points]:
    wall: Points = [(-1, -0.2), (-1, 1), (1, 1), (1, -0.2), (-1, -0.2)]
    door: Points = [(-0.2, 1), (-0.2, 0.4), (0.2, 0.4), (0.2, 1)]
    roof: Points = [(-1.1, -0.2), (0, -1.1), (1.1, -0.2)]
    return [wall, roof, door] if rng.random() < 0.7 else [wall, roof]


def _fish(rng: np.random.Generator) -> list[Points]:
    high = rng.uniform(0.35, 0.55)
    turns = np.linspace(0, 2 * math.pi, 18)
    body = [(0.9 * math.cos(t), float(high) * math.sin(t)) for t in turns]
    return [body, [(0.85, 0), (1.4, -0.4), (1.4, 0.4), (0.85, 0)], [(-0.55, -0.12), (-0.48, -0.1)]]


def _tree(rng: np.random.Generator) -> list[Points]:
    strokes: list[Points] = [[(-0.08, 1.1), (-0.05, 0)], [(0.1, 1.1), (0.08, 0)]]
    for angle in rng.uniform(math.pi, 2 * math.pi, int(rng.integers(6, 11))):
        length = rng.uniform(0.5, 1)
        x, y = length * math.cos(angle), length * math.sin(angle)
        strokes.append([(0, 0.1), (x / 2, y / 2 - 0.1), (x, y)])
    return strokes


def draw_pattern(rng: np.random.Generator, label: int, side: int) -> Image.Image:
    """Draw cloth in two colours: 0 stripes, 1 checks, 2 dots, 3 waves."""
    angle, period = rng.uniform(0, math.pi), rng.uniform(7, 14)
    rows, columns = np.mgrid[0:side, 0:side].astype(float)
    x = (columns * math.cos(angle) - rows * math.sin(angle)) / period
    y = (columns * math.sin(angle) + rows * math.cos(angle)) / period
    is_drawn = {
        0: np.sin(2 * math.pi * x) > 0,
        1: (np.sin(2 * math.pi * x) > 0) ^ (np.sin(2 * math.pi * y) > 0),
        2: np.hypot(x % 1 - 0.5, y % 1 - 0.5) < rng.uniform(0.25, 0.35),
        3: np.sin(2 * math.pi * (x + 0.25 * np.sin(math.pi * y))) > 0,
    }[label]
    light, dark = rng.integers(150, 255, 3), rng.integers(0, 110, 3)
    pixels = np.where(is_drawn[..., None], light, dark) + rng.normal(0, 12, (side, side, 3))
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


Draw = Callable[[np.random.Generator, int, int], Image.Image]


@dataclass(frozen=True)
class PictureSet:
    """How a set is made.

    Attributes:
        draw: Draws a picture of a class.
        classes: Names of the classes.
        side: Side of the pictures in pixels.
        num_train: Training pictures of each class.
    """

    draw: Draw
    classes: Sequence[str]
    side: int
    num_train: int


SETS = {
    "leaves": PictureSet(draw_leaf, ("smooth", "lobed", "toothed"), 112, 22),
    "doodles": PictureSet(draw_doodle, ("house", "fish", "tree"), 96, 27),
    "patterns": PictureSet(draw_pattern, ("stripes", "checks", "dots", "waves"), 128, 40),
}


def write_set(name: str, path: Path, *, num_test: int) -> Path:
    """Write a set as a zip of `train/<class>/*` and `test/<class>/*`, always the same."""
    rng = np.random.default_rng(sorted(SETS).index(name))
    return write_pictures(SETS[name], path, num_test=num_test, rng=rng)


def write_pictures(
    made: PictureSet, path: Path, *, num_test: int, rng: np.random.Generator
) -> Path:
    """Write pictures as a zip of `train/<class>/*` and `test/<class>/*`.

    Args:
        made: How they are made.
        path: Path of the zip.
        num_test: Test pictures of each class.
        rng: Draws them.
    """
    with zipfile.ZipFile(path, "w") as packed:
        for split, count in (("train", made.num_train), ("test", num_test)):
            for label, folder in enumerate(made.classes):
                for number in range(count):
                    buffer = io.BytesIO()
                    made.draw(rng, label, made.side).save(buffer, "PNG")
                    packed.writestr(f"{split}/{folder}/{number:04d}.png", buffer.getvalue())
    return path
