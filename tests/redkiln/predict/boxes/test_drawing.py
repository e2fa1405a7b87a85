"""Boxes drawn into a photo."""

import numpy as np
from PIL import Image

from redkiln.annotations import class_colour
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


def test_the_name_of_a_box_at_the_upper_border_is_below_it(tmp_path):
    drawn = draw(tmp_path, (60, 0, 140, 90))
    assert (drawn[2:88, 62:139] == GREEN).all()
    assert (drawn[91:103, 62:90] != GREEN).any()


def count_red(drawn):
    """Pixels of the frames and of the grounds of names, which have the first class's colour."""
    return int((drawn == class_colour(0)).all(axis=2).sum())


def test_each_of_several_boxes_in_one_place_shows_its_name(tmp_path):
    box = (60, 30, 140, 80)
    frame = 2 * (81 + 51) - 4
    name = count_red(draw(tmp_path, box)) - frame
    both = count_red(draw(tmp_path, box, box)) - frame
    assert name > 100
    assert both > 1.7 * name  # the lower name covers a part of the frame


def test_a_photo_of_16_bits_is_drawn_as_the_model_sees_it(tmp_path):
    Image.fromarray(np.full((20, 20), 0x80FF, np.uint16)).save(tmp_path / "deep.png")
    draw_found(tmp_path / "deep.png", [], tmp_path / "drawn.png", ["cat"])
    with Image.open(tmp_path / "drawn.png") as drawn:
        assert (np.asarray(drawn) == 0x80).all()
