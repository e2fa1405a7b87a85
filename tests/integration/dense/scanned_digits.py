"""Pages with scans of handwritten digits (scikit-learn's `load_digits`), in each annotation format.

The scans are real, small and come with a dependency, so nothing has to be stored or fetched.
"""

import io

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from tests.service.datasets.inspect.boxes.made import coco, labelme, voc

CLASSES = ("0", "1", "7")
SIDE = 64
SCAN_SIDE = 24
CORNERS = ((4, 4), (36, 6), (6, 36), (34, 34))
"""Left upper corners of the scans on a page, in pixels."""


def draw_pages(num):
    """PNG files by name, and by the same names the digits: (class number, left, top)."""
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
            found.append((label, left, top))
        buffer = io.BytesIO()
        page.save(buffer, "PNG")
        files[f"{number:03d}"], digits[f"{number:03d}"] = buffer.getvalue(), found
    return files, digits


def write_set(folder, annotation_format, *, num):
    """Write pages and their annotations; returns how many digits there are."""
    pages, digits = draw_pages(num)
    images, annotations = WRITERS[annotation_format](digits)
    files = {images.format(name): page for name, page in pages.items()} | annotations
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return sum(len(found) for found in digits.values())


def _as_coco(digits):
    objects = [
        (number, label, [left, top, SCAN_SIDE, SCAN_SIDE], {"area": SCAN_SIDE**2, "iscrowd": 0})
        for number, found in enumerate(digits.values())
        for label, left, top in found
    ]
    names = [f"{name}.png" for name in digits]
    content = coco(names, objects, categories=CLASSES, size=(SIDE, SIDE))
    return "images/{}.png", {"annotations.json": content}


def _as_yolo(digits):
    def line(label, left, top):
        middle = (left + SCAN_SIDE / 2) / SIDE, (top + SCAN_SIDE / 2) / SIDE
        return f"{label} {middle[0]} {middle[1]} {SCAN_SIDE / SIDE} {SCAN_SIDE / SIDE}\n"

    labels = {
        f"labels/{name}.txt": "".join(line(*digit) for digit in found).encode()
        for name, found in digits.items()
    }
    names = "".join(f"  {number}: '{name}'\n" for number, name in enumerate(CLASSES))
    return "images/{}.png", labels | {"data.yaml": f"train: images\nnames:\n{names}".encode()}


def _as_voc(digits):
    def described(label, left, top):  # VOC counts pixels from 1
        return (CLASSES[label], left + 1, top + 1, left + SCAN_SIDE, top + SCAN_SIDE, 0)

    return "JPEGImages/{}.png", {
        f"Annotations/{name}.xml": voc(
            [described(*digit) for digit in found], size=(SIDE, SIDE), name=f"{name}.png"
        )
        for name, found in digits.items()
    }


def _as_labelme(digits):
    def shape(label, left, top):
        corners = [[left, top], [left + SCAN_SIDE, top + SCAN_SIDE]]
        return CLASSES[label], "rectangle", corners

    return "{}.png", {
        f"{name}.json": labelme(
            [shape(*digit) for digit in found], size=(SIDE, SIDE), image=f"{name}.png"
        )
        for name, found in digits.items()
    }


WRITERS = {"coco": _as_coco, "yolo": _as_yolo, "voc": _as_voc, "labelme": _as_labelme}
