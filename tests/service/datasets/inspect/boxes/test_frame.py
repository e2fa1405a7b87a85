import io

import numpy as np
import pytest
from PIL import Image, ImageOps

from service.datasets.inspect.boxes.frame import choose_frame, displayed_size, to_displayed
from service.datasets.inspect.images import ImageFacts
from tests.service.datasets.inspect.boxes.made import boxes, coco, picture, pictures, voc

BOX = (2, 3, 12, 8)


def facts(orientation, size=(40, 20)):
    return ImageFacts(*size, "L", orientation)


@pytest.mark.parametrize("orientation", [5, 6, 7, 8])
def test_boxes_turn_with_the_picture(orientation):
    pixels = np.zeros((20, 40), np.uint8)
    left, top, right, bottom = BOX
    pixels[top:bottom, left:right] = 255
    exif = Image.Exif()
    exif[0x0112] = orientation
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", exif=exif)
    shown = ImageOps.exif_transpose(Image.open(buffer))
    assert displayed_size(facts(orientation)) == shown.size
    assert to_displayed(BOX, facts(orientation)) == shown.getbbox()


@pytest.mark.parametrize(
    ("size", "orientation", "box", "frame"),
    [
        (None, 6, BOX, "displayed"),
        ((20, 40), 6, BOX, "displayed"),
        ((40, 20), 6, BOX, "stored"),
        ((40, 20), 6, (2, 3, 12, 38), "displayed"),  # the box fits only the displayed picture
        ((40, 20), 3, BOX, "displayed"),
        ((40, 20), 1, BOX, "displayed"),
        ((20, 40), 1, BOX, None),
        ((80, 40), 6, BOX, None),
    ],
)
def test_the_annotated_picture_is_found_by_its_written_size(size, orientation, box, frame):
    assert choose_frame(size, [box], facts(orientation)) == frame


@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_an_index_has_pixels_of_the_displayed_picture(check, orientation):
    """Whatever the format: COCO says that it means the stored picture, YOLO means the other."""
    photo = {"1.png": picture(orientation=orientation), **pictures("2.png")}
    index, report = check(photo | {"instances_all.json": coco(
        ["1.png", "2.png"], [(0, 0, [2, 3, 10, 5], {}), (1, 0, [0, 0, 9, 9], {})]
    )})  # fmt: skip
    expected = {1: BOX, 3: BOX, 6: (12, 2, 17, 12)}[orientation]
    assert boxes(index)["1.png"] == [("cat", expected)]
    assert any("were rotated, too" in note for note in report.notes) == (orientation == 6)
    index, _ = check(photo | {"labels/1.txt": b"0 .5 .25 .5 .5", "labels/2.txt": b"0 .5 .5 .5 .5"})
    shown = (5, 0, 15, 20) if orientation == 6 else (10, 0, 30, 10)
    assert boxes(index)["1.png"] == [("0", shown)]


def test_a_size_of_zero_says_nothing(check):
    files = pictures("1.png", "2.png")
    files |= {f"{stem}.xml": voc([("cat", 0, 0, 9, 9, 0)], size=(0, 0)) for stem in "12"}
    index, _ = check(files)
    assert (index.splits["test"][0].width, index.splits["test"][0].height) == (40, 20)
