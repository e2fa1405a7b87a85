"""Pages with scans of handwritten digits (scikit-learn's `load_digits`), in each annotation format.

The scans are real, small and come with a dependency, so nothing has to be stored or fetched.
"""

import io
from typing import NamedTuple

import numpy as np
from PIL import Image
from scipy.spatial import ConvexHull
from sklearn.datasets import load_digits

from tests.service.datasets.inspect.boxes.made import coco, labelme, voc

CLASSES = ("0", "1", "7")
BACKGROUND = "background"
SIDE = 64
SCAN_SIDE = 24
CORNERS = ((4, 4), (36, 6), (6, 36), (34, 34))
"""Left upper corners of the scans on a page, in pixels."""
INK = 60
"""Darkest grey of ink."""
ENDS = ((0, 0), (0, 1), (1, 0), (1, 1))
"""Corners of a pixel."""


class Digit(NamedTuple):
    """A scan on a page: its class, its left upper corner, and the corners around its ink."""

    label: int
    left: int
    top: int
    outline: list


def draw_pages(num):
    """PNG files by name, and by the same names the digits."""
    random = np.random.default_rng(0)
    scans = load_digits()
    pools = [scans.images[scans.target == int(name)] for name in CLASSES]
    files, digits = {}, {}
    for number in range(num):
        page = Image.fromarray(random.integers(0, 60, (SIDE, SIDE), np.uint8))
        found = []
        for left, top in CORNERS[: 1 + number % len(CORNERS)]:
            label = int(random.integers(len(CLASSES)))
            scan = pools[label][random.integers(len(pools[label]))]
            ink = Image.fromarray((scan * 15).astype(np.uint8)).resize((SCAN_SIDE, SCAN_SIDE))
            page.paste(ink, (left, top))
            found.append(Digit(label, left, top, _surround(np.asarray(ink), left, top)))
        buffer = io.BytesIO()
        page.save(buffer, "PNG")
        files[f"{number:03d}"], digits[f"{number:03d}"] = buffer.getvalue(), found
    return files, digits


def write_set(folder, write, *, num):
    """Write pages and the annotations that a function makes; returns how many digits there are."""
    pages, digits = draw_pages(num)
    images, annotations = write(digits)
    files = {images.format(name): page for name, page in pages.items()} | annotations
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return sum(len(found) for found in digits.values())


def _surround(ink, left, top):
    """Corners [x, y] of the smallest convex region around a scan's ink, on its page."""
    rows, columns = np.nonzero(ink > INK)
    corners = [
        (left + x + right, top + y + lower)
        for x, y in zip(columns.tolist(), rows.tolist(), strict=True)
        for right, lower in ENDS
    ]
    return [list(corners[place]) for place in ConvexHull(corners).vertices]


def _paint(digit):
    """The pixels of a digit on its page, whose centres are inside its outline."""
    centres = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE)), axis=-1) + 0.5
    faces = ConvexHull(digit.outline).equations
    return (centres @ faces[:, :2].T + faces[:, 2] <= 0).all(axis=-1)


def _count_runs(mask):
    """COCO's runs of a mask, as a list."""
    pixels = np.concatenate([[0], mask.T.reshape(-1), [2]]).astype(int)
    return np.diff(np.flatnonzero(np.diff(pixels)), prepend=0).tolist()


def _fit_box(digit):
    return [digit.left, digit.top, SCAN_SIDE, SCAN_SIDE]


def _write_coco(digits, describe):
    objects = [
        (number, digit.label, _fit_box(digit), {"iscrowd": 0, **describe(digit)})
        for number, found in enumerate(digits.values())
        for digit in found
    ]
    names = [f"{name}.png" for name in digits]
    content = coco(names, objects, categories=CLASSES, size=(SIDE, SIDE))
    return "images/{}.png", {"annotations.json": content}


def _as_coco(digits):
    return _write_coco(digits, lambda _: {"area": SCAN_SIDE**2})


def _as_polygons(digits):
    return _write_coco(digits, lambda one: {"segmentation": [np.ravel(one.outline).tolist()]})


def _as_runs(digits):
    def describe(digit):
        return {"segmentation": {"counts": _count_runs(_paint(digit)), "size": [SIDE, SIDE]}}

    return _write_coco(digits, describe)


def _as_yolo(digits):
    def line(digit):
        middle = (digit.left + SCAN_SIDE / 2) / SIDE, (digit.top + SCAN_SIDE / 2) / SIDE
        side = SCAN_SIDE / SIDE
        return f"{digit.label} {middle[0]} {middle[1]} {side} {side}\n"

    labels = {
        f"labels/{name}.txt": "".join(map(line, found)).encode() for name, found in digits.items()
    }
    names = "".join(f"  {number}: '{name}'\n" for number, name in enumerate(CLASSES))
    return "images/{}.png", labels | {"data.yaml": f"train: images\nnames:\n{names}".encode()}


def _as_voc(digits):
    def describe(digit):  # VOC counts pixels from 1
        left, top, width, height = _fit_box(digit)
        return (CLASSES[digit.label], left + 1, top + 1, left + width, top + height, 0)

    return "JPEGImages/{}.png", {
        f"Annotations/{name}.xml": voc(
            [*map(describe, found)], size=(SIDE, SIDE), name=f"{name}.png"
        )
        for name, found in digits.items()
    }


def _write_labelme(digits, describe):
    return "{}.png", {
        f"{name}.json": labelme([*map(describe, found)], size=(SIDE, SIDE), image=f"{name}.png")
        for name, found in digits.items()
    }


def _as_labelme(digits):
    def describe(digit):
        left, top, width, height = _fit_box(digit)
        return CLASSES[digit.label], "rectangle", [[left, top], [left + width, top + height]]

    return _write_labelme(digits, describe)


def _as_outlines(digits):
    return _write_labelme(digits, lambda one: (CLASSES[one.label], "polygon", one.outline))


def _as_masks(digits):
    files = {"classes.txt": "\n".join([BACKGROUND, *CLASSES]).encode()}
    for name, found in digits.items():
        mask = np.zeros((SIDE, SIDE), np.uint8)
        for digit in found:
            mask[_paint(digit)] = digit.label + 1
        buffer = io.BytesIO()
        Image.fromarray(mask).save(buffer, "PNG")
        files[f"masks/{name}.png"] = buffer.getvalue()
    return "images/{}.png", files


WRITERS = {"coco": _as_coco, "yolo": _as_yolo, "voc": _as_voc, "labelme": _as_labelme}
"""Annotation formats of boxes."""
MASK_WRITERS = {
    "masks": _as_masks,
    "polygons": _as_polygons,
    "runs": _as_runs,
    "outlines": _as_outlines,
}
"""Formats of masks: PNG, two of COCO, and LabelMe's; all but the first also separate objects."""
