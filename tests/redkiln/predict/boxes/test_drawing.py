"""Boxes drawn into a photo."""

import numpy as np
from PIL import Image

from redkiln.predict.boxes.drawing import draw_found
from redkiln.predict.model import FoundBox

GREEN = (0, 128, 0)


def draw(folder, *corners):
    """The pixels of a green photo with boxes."""
    Image.new("RGB", (200, 120), GREEN).save(folder / "photo.png")
    boxes = [FoundBox("cat", 0.9, box) for box in corners]
    draw_found(folder / "photo.png", boxes, folder / "drawn.png", ["cat", "dog"])
    with Image.open(folder / "drawn.png") as drawn:
        return np.asarray(drawn)


def test_a_name_hides_nothing_of_its_object(tmp_path):
    drawn = draw(tmp_path, (60, 50, 140, 110))
    assert (drawn[52:109, 62:139] == GREEN).all()
    assert (drawn[30:49, 60:90] != GREEN).any()


def test_the_name_of_a_box_at_the_upper_border_is_inside_of_it(tmp_path):
    drawn = draw(tmp_path, (60, 0, 140, 110))
    assert (drawn[2:12, 62:90] != GREEN).any()
