import json

import numpy as np
import pytest
from PIL import Image

from examples.detection.make_shapes import CLASSES, draw_images, write_coco, write_yolo

NUM, SIZE = 6, 64


@pytest.fixture
def written(tmp_path):
    write_coco(tmp_path / "coco", draw_images(NUM, size=SIZE))
    write_yolo(tmp_path / "yolo", draw_images(NUM, size=SIZE))
    return tmp_path


def read_coco(folder):
    """Boxes of each image, (label, left, top, right, bottom)."""
    content = json.loads((folder / "annotations.json").read_text())
    found = {image["file_name"]: [] for image in content["images"]}
    names = {image["id"]: image["file_name"] for image in content["images"]}
    for each in content["annotations"]:
        left, top, width, height = each["bbox"]
        box = (each["category_id"] - 1, left, top, left + width, top + height)
        found[names[each["image_id"]]].append(box)
    return found


def read_yolo(folder):
    found = {}
    for path in sorted((folder / "labels").iterdir()):
        boxes = found[f"{path.stem}.png"] = []
        for line in path.read_text().splitlines():
            label, x, y, width, height = map(float, line.split())
            corners = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            boxes.append((int(label), *(round(SIZE * value, 3) for value in corners)))
    return found


def test_both_formats_describe_the_same_images_and_boxes(written):
    boxes = read_coco(written / "coco")
    assert boxes == read_yolo(written / "yolo")
    assert len(boxes) == NUM
    for name in boxes:
        one, other = (np.asarray(Image.open(written / kind / "images" / name))
                      for kind in ("coco", "yolo"))  # fmt: skip
        assert (one == other).all()


def test_each_box_is_inside_its_image_and_has_a_class(written):
    boxes = [box for image in read_coco(written / "coco").values() for box in image]
    assert {label for label, *_ in boxes} == set(range(len(CLASSES)))
    for _, left, top, right, bottom in boxes:
        assert 0 <= left < right <= SIZE
        assert 0 <= top < bottom <= SIZE


def test_a_square_fills_its_box_with_one_colour():
    squares = 0
    for image, shapes in draw_images(30, size=SIZE):
        left, top, right, bottom = shapes[-1].box  # drawn last, so nothing covers it
        inside = np.asarray(image)[top:bottom, left:right]
        is_plain = (inside == inside[0, 0]).all()
        assert is_plain == (CLASSES[shapes[-1].label] == "square")
        squares += is_plain
    assert squares
