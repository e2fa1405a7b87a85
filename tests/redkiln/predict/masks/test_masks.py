"""Masks as text, in squares and images, scored, and drawn."""

import base64
import io
import zlib

import numpy as np
import pytest
from PIL import Image

from redkiln.annotations import IGNORED, class_colour
from redkiln.predict.masks.coding import pack_mask, unpack_mask
from redkiln.predict.masks.drawing import overlay, write_png
from redkiln.predict.masks.fitting import to_image, to_square
from redkiln.predict.masks.scores import count_pixels, score_classes, score_counts, score_masks
from redkiln.predict.pixels import PixelFormat, to_pixels

RANDOM = np.random.default_rng(0)


def test_a_packed_mask_is_the_same_mask():
    mask = RANDOM.integers(0, 256, (7, 5), dtype=np.uint8)
    np.testing.assert_array_equal(unpack_mask(pack_mask(mask), (5, 7)), mask)


@pytest.mark.parametrize(
    "text",
    [
        "not base64!",
        base64.b64encode(b"not zlib").decode(),
        base64.b64encode(zlib.compress(bytes(34))).decode(),
        base64.b64encode(zlib.compress(bytes(10**7))).decode(),
    ],
)
def test_a_damaged_mask_is_an_error_and_is_not_unpacked_beyond_its_size(text):
    with pytest.raises(ValueError, match="the mask"):
        unpack_mask(text, (5, 7))


@pytest.mark.parametrize("size", [(90, 40), (40, 90), (64, 64), (300, 200)])
@pytest.mark.parametrize("resize", ["pad", "stretch"])
def test_a_mask_is_where_the_image_is_in_the_square(size, resize):
    width, height = size
    image = np.zeros((height, width, 3), dtype=np.uint8)
    image[: height // 2, : width // 2] = 255
    mask = (image[..., 0] > 0).astype(np.uint8)
    form = PixelFormat(size=64, channels=1, resize=resize)
    pixels = to_pixels(Image.fromarray(image), form)[..., 0]
    square = to_square(mask, size, 64, resize)
    is_sure = (pixels < 20) | (pixels > 235)
    known = is_sure & (square != IGNORED)
    assert ((pixels > 127) == (square == 1))[known].mean() > 0.99
    assert (pixels[square == IGNORED] == 0).all()
    assert ((square == IGNORED).any()) == (resize == "pad" and width != height)
    assert (to_image(square, size, resize) == mask).mean() > 0.95


def test_a_smaller_mask_of_an_image_is_fitted_likewise():
    mask = np.repeat(np.arange(4, dtype=np.uint8), 10)[None].repeat(20, axis=0)  # (20, 40)
    whole = to_square(mask, (40, 20), 64, "pad")
    np.testing.assert_array_equal(to_square(mask[::2, ::2], (40, 20), 64, "pad"), whole)


def test_scores_are_those_of_their_definitions():
    truth = np.array([[[0, 0, 1, 1], [1, IGNORED, 2, 2]]], dtype=np.uint8)
    found = np.array([[[0, 1, 1, 1], [0, 2, 2, 2]]], dtype=np.uint8)
    # Class 0: 1 right of 3; class 1: 2 right of 4; class 2: all.
    scores = score_masks(found, truth, 4)
    assert scores["miou"] == pytest.approx((1 / 3 + 2 / 4 + 1) / 3)
    assert scores["dice"] == pytest.approx((2 / 4 + 4 / 6 + 1) / 3)
    assert scores["pixel_accuracy"] == pytest.approx(5 / 7)
    rows = score_classes(count_pixels(found, truth, 4), ["a", "b", "c", "d"])
    assert [one.num for one in rows] == [2, 3, 2, 0]
    assert (rows[1].precision, rows[1].recall) == (2 / 3, 2 / 3)
    assert rows[3].iou is None
    assert score_counts(np.zeros((2, 2), dtype=np.int64))["miou"] == 0


def test_an_overlay_keeps_the_background_and_colours_the_classes():
    mask = np.array([[0, 1, IGNORED]], dtype=np.uint8)
    drawn = overlay(np.zeros((1, 3, 1), dtype=np.uint8), mask, num_classes=2)
    assert drawn[0, 0].tolist() == drawn[0, 2].tolist() == [0, 0, 0]
    np.testing.assert_allclose(drawn[0, 1], 0.55 * np.array(class_colour(1)), atol=1)


def test_a_mask_as_png_has_the_labels_as_pixels():
    mask = RANDOM.integers(0, 3, (6, 9), dtype=np.uint8)
    with Image.open(io.BytesIO(write_png(mask, ["a", "b", "c"]))) as image:
        assert image.mode == "P"
        np.testing.assert_array_equal(np.asarray(image), mask)
        assert image.convert("RGB").getpixel((0, 0)) == class_colour(int(mask[0, 0]))
