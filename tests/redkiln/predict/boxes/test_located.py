import numpy as np
import pytest
from PIL import ExifTags, Image

from redkiln.predict.boxes.drawing import draw_found, name_drawn
from redkiln.predict.model import FoundBox, Model
from tests.redkiln.predict.models import save_detector


def photograph(folder, name="wide.png", *, size=(40, 20), brightness=200, **options):
    path = folder / name
    Image.new("RGB", size, (brightness,) * 3).save(path, **options)
    return path


def find(model, *paths, threshold=None):
    opened = Model(model, threads=1)
    opened.threshold = threshold
    return list(opened.predict(paths))


def test_the_letterbox_is_undone(tmp_path):
    (one,) = find(save_detector(tmp_path), photograph(tmp_path), threshold=0.1)
    (box,) = one.boxes
    # Of a wide image, the middle half of the square is all there is.
    assert box.class_name == "moon"
    assert box.box == pytest.approx((0, 0, 40, 20))
    assert one.answer == ["moon"]


def test_a_stretched_image_has_boxes_in_its_own_proportions(tmp_path):
    model = save_detector(tmp_path, resize="stretch")
    (one,) = find(model, photograph(tmp_path, size=(20, 40)))
    assert one.boxes[0].box == pytest.approx((0, 10, 20, 30))


def test_boxes_belong_to_the_upright_image(tmp_path):
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    path = photograph(tmp_path, "turned.jpg", size=(20, 40), exif=exif)
    (one,) = find(save_detector(tmp_path), path, threshold=0.1)
    assert one.boxes[0].box == pytest.approx((0, 0, 40, 20))


def test_large_photos_are_decoded_smaller_but_keep_their_coordinates(tmp_path):
    path = photograph(tmp_path, "large.jpg", size=(800, 400))
    (one,) = find(save_detector(tmp_path), path, threshold=0.1)
    assert one.boxes[0].box == pytest.approx((0, 0, 800, 400))


def test_the_threshold_decides_what_is_reported(tmp_path):
    model, path = save_detector(tmp_path), photograph(tmp_path, size=(20, 20), brightness=100)
    assert [len(find(model, path, threshold=t)[0].boxes) for t in (None, 0.3, 0.45)] == [0, 1, 0]


def test_boxes_are_drawn_with_their_classes(tmp_path):
    path = photograph(tmp_path, size=(200, 100), brightness=0)
    target = name_drawn(tmp_path / "drawn", str(path), taken := set())
    target.parent.mkdir()
    draw_found(path, [FoundBox("moon", 0.9, (50, 40, 150, 90))], target, ["sun", "moon"])
    pixels = np.asarray(Image.open(target))
    assert pixels.shape == (100, 200, 3)
    assert pixels[65, 50].any()
    assert pixels[90, 100].any()
    assert not pixels[65, 100].any()
    assert name_drawn(tmp_path, str(path), taken).name == "wide-2.png"
