"""Six small sets of rendered pictures, whose classes differ by texture, shape, colour or direction.

Light, colour, size and place differ from picture to picture and, except for what names the class,
say nothing about it.
"""

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from bench.accuracy.image_sets import PictureSet, Points, turn_and_place

Grid = NDArray[np.float64]
Colour = tuple[int, int, int]


def _grid(rng: np.random.Generator, side: int, *, turn: float) -> tuple[Grid, Grid]:
    """Return two coordinates of each pixel, turned by at most `turn` radians and shifted."""
    angle, (dx, dy) = rng.uniform(-turn, turn), rng.uniform(0, 100, 2)
    rows, columns = np.mgrid[0:side, 0:side].astype(float)
    u = columns * math.cos(angle) - rows * math.sin(angle) + dx
    v = columns * math.sin(angle) + rows * math.cos(angle) + dy
    return u + 1000, v + 1000


def _colour(rng: np.random.Generator, low: int, high: int) -> Colour:
    red, green, blue = (int(value) for value in rng.integers(low, high, 3))
    return red, green, blue


def _photograph(rng: np.random.Generator, pixels: NDArray[np.float64]) -> Image.Image:
    """Light pixels (S, S, 3) from one side, and add blur and noise as a camera does."""
    u, _ = _grid(rng, len(pixels), turn=math.pi)
    slope = (u - u.mean()) / len(pixels) * rng.uniform(0, 0.5)
    lit = pixels * (rng.uniform(0.75, 1.1) + slope)[..., None]
    image = Image.fromarray(np.clip(lit, 0, 255).astype(np.uint8))
    soft = image.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.2, 1.0))))
    noisy = np.asarray(soft, np.float64) + rng.normal(0, rng.uniform(3, 10), pixels.shape)
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def draw_fabric(rng: np.random.Generator, label: int, side: int) -> Image.Image:
    """Draw cloth: 0 plain weave, 1 twill, 2 satin, 3 herringbone."""
    u, v = _grid(rng, side, turn=0.25)
    thread = rng.uniform(4.5, 8)
    i, j = np.floor(u / thread).astype(int), np.floor(v / thread).astype(int)
    k = np.where((i // 8) % 2 == 0, i, -i)
    is_warp = {
        0: (i + j) % 2 == 0,
        1: (i + j) % 4 < 2,
        2: (j - 2 * i) % 5 > 0,
        3: (k + j) % 4 < 2,
    }[label]
    across = np.where(is_warp, u, v) / thread % 1
    shade = 0.55 + 0.45 * np.sin(math.pi * across)
    warp, weft = np.array(_colour(rng, 60, 230)), np.array(_colour(rng, 60, 230))
    return _photograph(rng, np.where(is_warp[..., None], warp, weft) * shade[..., None])


def draw_stone(rng: np.random.Generator, label: int, side: int) -> Image.Image:
    """Draw a stone surface of noise: 0 polished, 1 sawn, 2 broken."""
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None])
    frequency[0, 0] = 1
    steepness = (2.1, 1.7, 1.3)[label] + rng.uniform(-0.12, 0.12)
    spectrum = np.fft.rfft2(rng.normal(size=(side, side))) / frequency**steepness
    spectrum[0, 0] = 0
    height = np.fft.irfft2(spectrum, s=(side, side))
    relief = height / height.std() * rng.uniform(15, 35)
    return _photograph(rng, np.array(_colour(rng, 90, 190)) + relief[..., None])


def draw_sign(rng: np.random.Generator, label: int, side: int) -> Image.Image:
    """Draw a road sign: 0 arrow to the left, 1 to the right, 2 upwards, 3 a cross, 4 a bar."""
    image = _clutter(rng, side)
    arrow: Points = [
        (-0.6, 0), (-0.1, -0.5), (-0.1, -0.18), (0.6, -0.18), (0.6, 0.18), (-0.1, 0.18), (-0.1, 0.5)
    ]  # fmt: skip
    shapes: dict[int, list[Points]] = {
        0: [arrow],
        1: [[(-x, y) for x, y in arrow]],
        2: [[(y, x) for x, y in arrow]],
        3: [_bar(math.pi / 4), _bar(-math.pi / 4)],
        4: [_bar(0)],
    }
    corners = int(rng.choice([3, 4, 8, 24]))
    start = -math.pi / 2 if corners == 3 else math.pi / corners
    reach = 1.7 if corners == 3 else 1.15
    edge = [
        (reach * math.cos(start + 2 * math.pi * n / corners),
         reach * math.sin(start + 2 * math.pi * n / corners))
        for n in range(corners)
    ]  # fmt: skip
    sizes = [len(edge), *(len(shape) for shape in shapes[label])]
    points = [*edge, *(point for shape in shapes[label] for point in shape)]
    placed = turn_and_place(rng, points, side, turn=0.15, sizes=(0.16, 0.28))
    face, mark = _colour(rng, 110, 256), _colour(rng, 0, 90)
    if rng.random() < 0.5:
        face, mark = mark, face
    draw = ImageDraw.Draw(image)
    for number, size in enumerate(sizes):
        draw.polygon(placed[:size], fill=mark if number else face)
        placed = placed[size:]
    return _photograph(rng, np.asarray(image, np.float64))


def _bar(angle: float) -> Points:
    cos, sin = math.cos(angle), math.sin(angle)
    corners = ((-0.65, -0.15), (0.65, -0.15), (0.65, 0.15), (-0.65, 0.15))
    return [(x * cos - y * sin, x * sin + y * cos) for x, y in corners]


def _clutter(rng: np.random.Generator, side: int) -> Image.Image:
    """Return a background with houses and trees, as boxes and circles."""
    image = Image.new("RGB", (side, side), _colour(rng, 90, 230))
    draw = ImageDraw.Draw(image)
    for _ in range(int(rng.integers(4, 10))):
        x, y, wide, high = (int(value) for value in rng.integers(-10, side, 4))
        box = (x, y, x + 8 + wide // 2, y + 8 + high // 2)
        shape = draw.rectangle if rng.random() < 0.6 else draw.ellipse
        shape(box, fill=_colour(rng, 30, 230))
    return image


def draw_bottle(rng: np.random.Generator, label: int, side: int) -> Image.Image:
    """Draw a bottle of 0 green, 1 brown, 2 blue, 3 clear or 4 amber glass."""
    image = _clutter(rng, side)
    wide, neck, shoulder = rng.uniform(0.3, 0.5), rng.uniform(0.1, 0.18), rng.uniform(-0.5, -0.2)
    outline = [(-neck, -1), (-neck, shoulder - 0.15), (-wide, shoulder + 0.1), (-wide, 1)]
    points = [*outline, *((-x, y) for x, y in reversed(outline))]
    placed = turn_and_place(rng, points, side, turn=0.4, sizes=(0.2, 0.36))
    glass = ((30, 110, 50), (95, 55, 25), (35, 60, 140), (200, 210, 205), (190, 120, 30))[label]
    shown = np.clip(np.array(glass) + rng.normal(0, 18, 3), 0, 255).astype(int)
    mask = Image.new("L", (side, side), 0)
    ImageDraw.Draw(mask).polygon(placed, fill=int(rng.uniform(150, 230)))
    image.paste(Image.new("RGB", (side, side), tuple(int(value) for value in shown)), mask=mask)
    draw = ImageDraw.Draw(image)
    draw.line([placed[2], placed[3]], fill=(235, 235, 235), width=1)
    return _photograph(rng, np.asarray(image, np.float64))


def draw_gauge(rng: np.random.Generator, label: int, side: int) -> Image.Image:
    """Draw a dial whose needle is in the 0 lower, 1 middle or 2 upper third of the scale."""
    image = Image.new("RGB", (side, side), _colour(rng, 40, 200))
    draw = ImageDraw.Draw(image)
    radius = side * rng.uniform(0.28, 0.42)
    x, y = side * rng.uniform(0.44, 0.56, 2)
    face, ink = _colour(rng, 170, 256), _colour(rng, 0, 110)
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=face, outline=ink, width=3)
    start, span = math.radians(135), math.radians(270)
    for tick in range(ticks := int(rng.choice([7, 10, 13]))):
        angle = start + span * tick / (ticks - 1)
        _ray(draw, (x, y), angle, (0.78 * radius, 0.92 * radius), fill=ink, width=2)
    share = (label + rng.uniform(0.08, 0.92)) / 3
    needle = _colour(rng, 0, 120) if rng.random() < 0.5 else (200, 30, 30)
    reach = (-0.15 * radius, radius * rng.uniform(0.55, 0.8))
    _ray(draw, (x, y), start + span * share, reach, fill=needle, width=int(rng.integers(2, 5)))
    return _photograph(rng, np.asarray(image, np.float64))


def _ray(
    draw: ImageDraw.ImageDraw,
    centre: tuple[float, float],
    angle: float,
    reach: tuple[float, float],
    *,
    fill: Colour,
    width: int,
) -> None:
    ends = [
        (centre[0] + r * math.cos(angle), centre[1] + r * math.sin(angle))
        for r in map(float, reach)
    ]
    draw.line(ends, fill=fill, width=width)


def draw_fastener(rng: np.random.Generator, label: int, side: int) -> Image.Image:
    """Draw on wood, in any direction: 0 a nail, 1 a screw, 2 a bolt, 3 a hook."""
    u, v = _grid(rng, side, turn=math.pi)
    grain = np.sin(v / rng.uniform(2, 6) + 2 * np.sin(u / rng.uniform(15, 40)))
    wood = np.array(_colour(rng, 100, 200)) + rng.uniform(5, 18) * grain[..., None]
    image = Image.fromarray(np.clip(wood, 0, 255).astype(np.uint8))
    thin = rng.uniform(0.06, 0.1)
    shaft: Points = [(-0.8, -thin), (0.85, -thin), (1, 0), (0.85, thin), (-0.8, thin)]
    head: Points = [(-0.95, -0.28), (-0.8, -0.28), (-0.8, 0.28), (-0.95, 0.28)]
    if label == 1:
        turns = np.linspace(-0.5, 0.9, 24)
        upper = [(float(t), -thin * (1.9 if n % 2 else 0.9)) for n, t in enumerate(turns)]
        shaft = [
            (-0.8, -thin),
            *upper,
            (1, 0),
            *((t, -w) for t, w in reversed(upper)),
            (-0.8, thin),
        ]
    if label == 2:
        shaft = [(x, 2.2 * y) for x, y in shaft]
        head = [(-1, -0.35), (-0.65, -0.35), (-0.65, 0.35), (-1, 0.35)]
    if label == 3:
        arc = np.linspace(-math.pi / 2, math.pi * 0.6, 14)
        bend = [(0.8 + 0.35 * math.cos(t), 0.35 + 0.35 * math.sin(t)) for t in arc]
        inner = [(0.8 + 0.22 * math.cos(t), 0.35 + 0.22 * math.sin(t)) for t in arc[::-1]]
        shaft = [(-0.8, 0), *bend, *inner, (-0.8, 0.13)]
    placed = turn_and_place(
        rng, [*shaft, *head], side, turn=math.pi, sizes=(0.2, 0.34), noise=0.004
    )
    metal = tuple(int(v) for v in np.clip(rng.integers(70, 230) + rng.normal(0, 8, 3), 0, 255))
    draw = ImageDraw.Draw(image)
    draw.polygon(placed[: len(shaft)], fill=metal)
    draw.polygon(placed[len(shaft) :], fill=metal)
    return _photograph(rng, np.asarray(image, np.float64))


RENDERED = {
    "fabrics": PictureSet(draw_fabric, ("plain", "twill", "satin", "herringbone"), 112, 22),
    "stones": PictureSet(draw_stone, ("polished", "sawn", "broken"), 96, 25),
    "signs": PictureSet(draw_sign, ("left", "right", "up", "cross", "bar"), 80, 20),
    "bottles": PictureSet(draw_bottle, ("green", "brown", "blue", "clear", "amber"), 64, 20),
    "gauges": PictureSet(draw_gauge, ("low", "middle", "high"), 80, 40),
    "fasteners": PictureSet(draw_fastener, ("nail", "screw", "bolt", "hook"), 112, 36),
}
