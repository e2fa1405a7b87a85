"""Makes a data set of circles, squares and triangles in clutter, with boxes or with masks.

    python make_shapes.py shapes --num 500 --size 128 --format coco    # or yolo
    redkiln train shapes --task object-detection

    python make_shapes.py masked --num 500 --size 128 --format masks
    redkiln train masked

Each image has one to five shapes of random colours on a noisy background with lines and dots. A
shape covers at most a third of another. The same seed draws the same images. It needs numpy and
Pillow.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

CLASSES = ("circle", "square", "triangle")
MOST_SHAPES = 5
SIDES = (0.12, 0.34)
"""Smallest and largest side of a shape, as a share of the image's side."""
MOST_COVERED = 0.33
"""Largest share of a shape's box that another shape's box covers."""


@dataclass(frozen=True)
class Shape:
    """One object: its class and its box (left, top, right, bottom) in pixels."""

    label: int
    box: tuple[int, int, int, int]


def main() -> None:
    """Write the data set that the command line describes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder to create")
    parser.add_argument("--num", type=int, default=500, help="number of images")
    parser.add_argument("--size", type=int, default=128, help="side of each image in pixels")
    parser.add_argument("--format", choices=["coco", "yolo", "masks"], default="coco")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    drawn = draw_images(arguments.num, size=arguments.size, seed=arguments.seed)
    write = {"coco": write_coco, "yolo": write_yolo, "masks": write_masks}[arguments.format]
    write(arguments.folder, drawn)


def draw_images(num: int, *, size: int, seed: int = 0) -> Iterator[tuple[Image.Image, list[Shape]]]:
    """Yield images with their shapes."""
    random = np.random.default_rng(seed)
    for _ in range(num):
        image = _draw_clutter(random, size)
        shapes = _place_shapes(random, size)
        draw = ImageDraw.Draw(image)
        for shape in shapes:
            _draw_shape(draw, shape, _draw_colour(random))
        yield image, shapes


def write_coco(folder: Path, drawn: Iterator[tuple[Image.Image, list[Shape]]]) -> None:
    """Write images/ and annotations.json in COCO's format."""
    (folder / "images").mkdir(parents=True)
    images: list[dict[str, object]] = []
    annotations: list[dict[str, object]] = []
    for number, (image, shapes) in enumerate(drawn, start=1):
        name = f"{number:05d}.png"
        image.save(folder / "images" / name)
        images.append(
            {"id": number, "file_name": name, "width": image.width, "height": image.height}
        )
        for shape in shapes:
            left, top, right, bottom = shape.box
            width, height = right - left, bottom - top
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    "category_id": shape.label + 1,
                    "bbox": [left, top, width, height],
                    "area": width * height,
                    "iscrowd": 0,
                }
            )
    categories = [{"id": place + 1, "name": name} for place, name in enumerate(CLASSES)]
    content = {"images": images, "annotations": annotations, "categories": categories}
    (folder / "annotations.json").write_text(json.dumps(content))


def write_yolo(folder: Path, drawn: Iterator[tuple[Image.Image, list[Shape]]]) -> None:
    """Write images/, labels/ and data.yaml in YOLO's format."""
    (folder / "images").mkdir(parents=True)
    (folder / "labels").mkdir()
    for number, (image, shapes) in enumerate(drawn, start=1):
        image.save(folder / "images" / f"{number:05d}.png")
        lines = [_write_line(shape, size=image.width) for shape in shapes]
        (folder / "labels" / f"{number:05d}.txt").write_text("".join(lines))
    names = "".join(f"  {place}: {name}\n" for place, name in enumerate(CLASSES))
    (folder / "data.yaml").write_text(f"path: .\ntrain: images\nnames:\n{names}")


def write_masks(folder: Path, drawn: Iterator[tuple[Image.Image, list[Shape]]]) -> None:
    """Write images/, masks/ and classes.txt: the value of a mask's pixel is the class's line."""
    (folder / "images").mkdir(parents=True)
    (folder / "masks").mkdir()
    for number, (image, shapes) in enumerate(drawn, start=1):
        name = f"{number:05d}.png"
        image.save(folder / "images" / name)
        draw_mask(shapes, size=image.width).save(folder / "masks" / name)
    (folder / "classes.txt").write_text("".join(f"{name}\n" for name in ("background", *CLASSES)))


def draw_mask(shapes: list[Shape], *, size: int) -> Image.Image:
    """Return the mask of an image: 0 for the background, 1 and more for the classes."""
    mask = Image.new("L", (size, size))
    draw = ImageDraw.Draw(mask)
    for shape in shapes:
        _draw_shape(draw, shape, shape.label + 1)
    return mask


def _write_line(shape: Shape, *, size: int) -> str:
    left, top, right, bottom = (value / size for value in shape.box)
    numbers = ((left + right) / 2, (top + bottom) / 2, right - left, bottom - top)
    return f"{shape.label} {' '.join(f'{number:.6f}' for number in numbers)}\n"


def _draw_clutter(random: np.random.Generator, size: int) -> Image.Image:
    """Return a background of noise around a grey, with lines and dots."""
    base = random.integers(60, 196, size=3)
    noise = random.normal(0, 22, size=(size, size, 3))
    image = Image.fromarray((base + noise).clip(0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for _ in range(random.integers(6, 14)):
        ends = [int(place) for place in random.integers(0, size, size=4)]
        draw.line(ends, fill=_draw_colour(random), width=int(random.integers(1, 3)))
    for _ in range(random.integers(10, 30)):
        x, y, reach = (int(v) for v in random.integers((0, 0, 1), (size, size, 4)))
        draw.ellipse((x - reach, y - reach, x + reach, y + reach), fill=_draw_colour(random))
    return image


def _place_shapes(random: np.random.Generator, size: int) -> list[Shape]:
    shapes: list[Shape] = []
    wanted = random.integers(1, MOST_SHAPES + 1)
    for _ in range(20 * wanted):
        side = int(size * random.uniform(*SIDES))
        left, top = (int(place) for place in random.integers(0, size - side, size=2))
        new = Shape(int(random.integers(len(CLASSES))), (left, top, left + side, top + side))
        if len(shapes) < wanted and all(_covers_little(new, other) for other in shapes):
            shapes.append(new)
    return shapes


def _covers_little(one: Shape, other: Shape) -> bool:
    a, b = np.array(one.box), np.array(other.box)
    sides = (np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])).clip(0)
    smallest = min(np.prod(a[2:] - a[:2]), np.prod(b[2:] - b[:2]))
    return bool(np.prod(sides) <= MOST_COVERED * smallest)


def _draw_shape(
    draw: ImageDraw.ImageDraw, shape: Shape, colour: tuple[int, int, int] | int
) -> None:
    left, top, right, bottom = shape.box
    inside = (left, top, right - 1, bottom - 1)
    match CLASSES[shape.label]:
        case "circle":
            draw.ellipse(inside, fill=colour)
        case "square":
            draw.rectangle(inside, fill=colour)
        case "triangle":
            corners = [(left, bottom - 1), (right - 1, bottom - 1), ((left + right - 1) / 2, top)]
            draw.polygon(corners, fill=colour)


def _draw_colour(random: np.random.Generator) -> tuple[int, int, int]:
    red, green, blue = (int(value) for value in random.integers(0, 256, size=3))
    return red, green, blue


if __name__ == "__main__":
    main()
