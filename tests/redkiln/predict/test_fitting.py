import numpy as np
import pytest
from PIL import Image, ImageDraw

from redkiln.predict.fitting import find_fit
from redkiln.predict.pixels import PixelFormat, to_pixels

SIZES = [(100, 100), (120, 80), (37, 200), (64, 61), (300, 299)]


@pytest.mark.parametrize("resize", ["pad", "stretch"])
@pytest.mark.parametrize("size", SIZES)
def test_a_box_covers_the_same_object_in_the_square_as_in_the_image(size, resize):
    width, height = size
    box = np.array([[width * 0.25, height * 0.5, width * 0.75, height * 0.75]]).round()
    image = Image.new("L", size)
    left, top, right, bottom = box[0].tolist()
    ImageDraw.Draw(image).rectangle((left, top, right - 1, bottom - 1), fill=255)
    pixels = to_pixels(image, PixelFormat(size=64, channels=1, resize=resize))[..., 0]
    rows, columns = np.nonzero(pixels > 127)
    found = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    assert find_fit(size, 64, resize).to_square(box)[0] == pytest.approx(found, abs=1)


@pytest.mark.parametrize("size", SIZES)
def test_boxes_return_to_where_they_came_from(size):
    boxes = np.array([[1.0, 2.0, 30.5, 40.25], [0.0, 0.0, *size]])
    fit = find_fit(size, 96)
    assert fit.to_image(fit.to_square(boxes)) == pytest.approx(boxes)
    assert fit.to_square(boxes).max() <= 96


def test_boxes_of_an_image_of_extreme_proportions_keep_an_area():
    square = find_fit((10_000, 2), 64).to_square(np.array([[0.0, 0.0, 10_000.0, 2.0]]))
    assert square[0].tolist() == [0, 32, 64, 33]
